"""A job that leaks whatever it knows, each time in another way; for the test that looks for secrets."""

import logging
import os
from pathlib import Path

from cronlease import Run, scheduled
from cronlease.observe import logs, redact

if "CRONLEASE_TEST_UNREDACTED" in os.environ:
    for module in (logs, redact):
        vars(module)["redact"] = lambda text: text


def known() -> dict[str, str]:
    address = os.environ["DATABASE_URL"]
    token = os.environ["CRONLEASE_TOKEN"]
    return {
        "address": f"could not reach {address}",
        "password": "refused: " + address.split(":")[2].split("@")[0],
        "token": f"sent {token}, was refused",
        "file": "sent " + Path(os.environ["CRONLEASE_TOKEN_FILE"]).read_text(),
        "ping": "sent to " + os.environ["CRONLEASE_PING_URL"],
        "alert": "told " + os.environ["CRONLEASE_ALERT_URL"],
        "header": f"headers={{'Authorization': 'Bearer {token[::-1]}', 'accept': '*/*'}}",
        "pairs": address.replace("postgresql://", "password=").replace("@", " host="),
        # As long as what is stored, to the middle of the password.
        "far off": "x" * (2000 - len("ValueError:  ") - address.rindex("@") + 6) + " " + address,
    }


@scheduled
async def leak(run: Run) -> None:
    text = known()[run.args["what"]]
    how = run.args["how"]
    if how == "hint":
        run.report(hint=text)
    elif how == "partial":
        run.partial(text)
    elif how == "log":
        logs.log(logging.WARNING, text, action="leak", field=text, nested={"more": [text]})
    elif how == "late":
        async with run.commit():
            pass
        raise ValueError(text)
    elif how == "cause":
        error = RuntimeError("it went wrong")
        error.add_note(text)
        raise error from ValueError(text)
    else:
        raise ValueError(text)


@scheduled
async def refresh_opening_signals(run: Run) -> None:
    from opening_signals.http import fetch
    from opening_signals.job import refresh

    fetch.BACKOFF = (0.01, 0.02)
    await refresh(run)

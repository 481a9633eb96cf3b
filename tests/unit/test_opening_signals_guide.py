"""functions/opening_signals/README.md: its kinds, keys, states and numbers are those of the code."""

import re
import tomllib
from pathlib import Path
from typing import Any

import opening_signals
from opening_signals import check, storing
from opening_signals.cli import _SHOWN
from opening_signals.feeds import KINDS
from opening_signals.feeds.dates import _WORDS
from opening_signals.feeds.kind import MOST_COST, NODE
from opening_signals.feeds.spec import Feed, Fields
from opening_signals.http import body, fetch, hosts, network
from opening_signals.sources_file import load
from opening_signals.status import _state
from opening_signals.store.suspects import DIED

GUIDE = (Path(opening_signals.__file__).parent / "README.md").read_text(encoding="utf-8")


def test_the_guide_names_every_kind_and_its_short_keys() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) ?\| .* \|$", GUIDE[GUIDE.index("| kind |") : GUIDE.index("### Your own")], re.MULTILINE
    )
    written = {kind: re.findall(r"`(\w+)`", keys) for kind, keys in rows}
    assert written == {name: re.findall(r"{(\w+)}", kind.address) for name, kind in KINDS.items()}


def test_the_first_source_of_the_guide_can_be_loaded(tmp_path: Path) -> None:
    (entry,) = re.findall(r"```toml\n(# sources.toml.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "sources.toml").write_text(entry, encoding="utf-8")
    (source,) = load(str(tmp_path / "sources.toml"))
    assert (source.name, source.kind, source.organization) == ("acme", "greenhouse", "Acme")
    assert source.url.endswith("/acme/jobs")


def test_the_guide_names_the_keys_of_a_feed_and_its_fields_and_ways_to_page() -> None:
    text = GUIDE[GUIDE.index("| key |") : GUIDE.index("## Try a source")]
    keys = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert keys.keys() == Feed.model_fields.keys()
    assert re.findall(r"`(\w+)`", keys["fields"]) == list(Fields.model_fields)
    for paging in re.findall(r"`(\{.*?\})`", keys["paging"]):
        fields = {"external_id": "id", "title": "title"}
        Feed.model_validate({"items": "item", "fields": fields, **tomllib.loads(f"paging = {paging}")})
    assert set(_WORDS) <= set(re.findall(r"`(\w+)`", keys["dates"]))


def test_the_tables_of_the_guide_have_the_headings_and_states_of_the_verbs() -> None:
    shown = {verb: heading.split() for verb, heading in re.findall(r"^\$ cronlease (\w+).*\n(.*)$", GUIDE, re.M)}
    assert shown == {"sources": list(check.HEADING), "signals": list(_SHOWN)}
    states = re.findall(r"^\| `([\w ]+)` \|", GUIDE[GUIDE.index("| state |") :], re.MULTILINE)
    row: dict[str, Any] = {"last_ok_at": 1, "failures": 0, "until": None, "doubt": None, "last_error": ""}
    told = [None, row, row | {"doubt": "it is"}, row | {"failures": 1}, row | {"failures": 1, "until": 1}]
    assert states == [*(_state("rss", each)[0] for each in told), _state(None, row)[0]]


def test_the_numbers_of_the_guide_are_those_of_the_code() -> None:
    said = re.sub(r"\s+", " ", GUIDE)
    for number in (
        f"larger than 1 MiB or has more than {MOST_COST // NODE:,} values",
        f"the wire ({network.MOST_WIRE // 1024**2} MiB), the decoded bytes ({body.MOST_DECODED // 1024**3} GiB)",
        f"their ratio ({body.MOST_RATIO})",
        f"The run waits up to {hosts.LONGEST_REST:g} s for it",
        f"more than half of {storing._MANY} or more openings",
        f"`{DIED}`",
    ):
        assert number in said
    assert ["two", "three", "four"][hosts.MOST_SILENT - 2] + " fetches in a row that nothing answered" in said
    assert ["four", "five", "six"][fetch.MOST_REDIRECTS - 4] + " redirects" in said

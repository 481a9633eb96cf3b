"""A plain function: stores exchange rates every 10 to 15 minutes, however often it is hit.

cronlease serve --source plain_function.py
curl -X POST http://127.0.0.1:8080/
"""

from cronlease import Run, scheduled


@scheduled(every="10m..15m", backoff="20m..40m")  # after a success, and after a failure
def store_rates(run: Run) -> None:
    rates = fetch()  # no transaction is open while you wait on the network
    with run.commit() as conn:  # fenced first; leaving the block commits and finishes the run
        conn.cursor().executemany(
            "insert into rates (currency, rate) values (%s, %s)"
            " on conflict (currency) do update set rate = excluded.rate, seen_at = now()",
            rates,
        )
        run.report(fetched=len(rates))


def fetch() -> list[tuple[str, float]]:
    """Replace this: ask an API, read a file."""
    return [("CHF", 0.94), ("USD", 1.08)]

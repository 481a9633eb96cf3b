"""refresh_prices: a timed function. Any number of hits may arrive; it runs once whenever it is due."""

from cronlease import Run, scheduled


@scheduled(every="10m..15m", backoff="20m..40m")  # after a success, and after a failure
async def refresh_prices(run: Run) -> None:
    """Stores the newest price of everything."""
    prices = await fetch()  # no transaction is open while you wait on the network
    async with run.commit() as conn:  # fenced first; leaving the block finishes the run and commits
        async with conn.cursor() as cursor:
            await cursor.executemany(
                "insert into prices (name, price) values (%s, %s)"
                " on conflict (name) do update set price = excluded.price, seen_at = now()",
                prices,
            )
        run.report(fetched=len(prices))


async def fetch() -> list[tuple[str, float]]:
    """Replace this: ask an API, read a file."""
    return [("bread", 3.2), ("milk", 1.1)]

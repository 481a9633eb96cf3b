"""Claim and finish against two raw updates of the row: four commits with fsync, client and backend on one core."""

import argparse
from datetime import timedelta
from uuid import uuid4

from cronlease.database import ask_plain
from cronlease.outcome import Counts, Status
from cronlease.wall import acquire_refresh_lock, finish_refresh_run
from tests.bench.side_by_side import NAME, Bench, alternate, cores, database, measured, pin, show

CLAIM = (
    "update public.refresh_schedule set locked_by = %s, locked_until = clock_timestamp() + interval '5 minutes',"
    " fence = fence + 1 where function_name = %s"
)
FINISH = (
    "update public.refresh_schedule set locked_by = null, locked_until = null,"
    " next_run_at = clock_timestamp() + interval '10 minutes', last_run_at = clock_timestamp(), last_status = %s"
    " where function_name = %s"
)
LEASE, DELAY, RETENTION = timedelta(minutes=5), timedelta(minutes=10), timedelta(days=30)


def run(bench: Bench, rounds: int, times: int) -> None:
    with bench.connect() as conn:

        def claim_and_finish() -> None:
            request_id = uuid4()
            claim = ask_plain(conn, acquire_refresh_lock(NAME, request_id, LEASE, force=True))
            assert claim.fence is not None, claim
            counts = Counts(120, 3, 1, 116, 2)
            finish = finish_refresh_run(
                NAME, request_id, claim.fence, Status.SUCCESS, DELAY, error=None, counts=counts, retention=RETENTION
            )
            ask_plain(conn, finish)

        def two_updates() -> None:
            conn.execute(CLAIM, [str(uuid4()), NAME])
            conn.execute(FINISH, ["success", NAME])

        backend = [conn.info.backend_pid]
        base, ours = "two raw updates", "claim and finish"
        variants = {base: measured(two_updates, times, backend), ours: measured(claim_and_finish, times, backend)}
        found = alternate(variants, rounds)
        show("pairs of commits per second", found, base, {ours: ">= 0.75"}, as_rate=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--times", type=int, default=25, help="pairs of commits in a round")
    args = parser.parse_args()
    core = cores()[-1] if cores() else None
    with database(core) as bench:
        pin(0, core)
        print(f"client and backend on core {core}, {args.rounds} rounds of {args.times}")
        run(bench, args.rounds, args.times)


if __name__ == "__main__":
    main()

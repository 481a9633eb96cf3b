"""The job: fetches openings from public feeds and upserts them, keeping when each was first seen.

    job -> catalogue, collect, memory, upsert -> fetch -> network, body
           sources (kinds) -> spec, paging, dates -> model -> trouble
    cli -> check -> collect; table

Knows nothing of HTTP triggers, schedules or leases; of cronlease only what a Run offers.
"""

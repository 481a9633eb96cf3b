"""The job: fetches openings from public feeds and upserts them, keeping when each was first seen.

    job -> suspects -> catalogue, collect, memory, strays, upsert -> fetch -> network -> lookup; body
           sources (kinds) -> model -> repair, spec -> paging, dates -> trouble
    cli -> check -> collect; strays, table
    settings, again    leaves

Knows nothing of HTTP triggers, schedules or leases; of cronlease only what a Run offers.
"""

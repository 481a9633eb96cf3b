"""The job: fetches openings from public feeds and upserts them, keeping when each was first seen.

    job -> catalogue, fetch, upsert, sources -> model

Knows nothing of HTTP triggers, schedules or leases; of cronlease only what a Run offers.
"""

"""The job: fetches openings from public feeds and upserts them, keeping when each was first seen.

    job, report                 one run: fetch, stage, merge; and what it says about its sources
    cli, check, output, doctor  for people: the verbs `signals` and `sources`, and what `cronlease doctor` asks
    store/                      the database: upsert, source_state, lock, suspects, orphaned_sources
    sources_file, collect       which sources there are; one source from the network to openings
    http/                       fetch -> network -> lookup; body. Bounded, and only to where a source may lead
    feeds/                      the kinds of feed, from bytes to openings: pure
    settings, errors            small values

Knows nothing of HTTP triggers, schedules or leases; of cronlease only what a Run offers, and its
loader of SQL.
"""

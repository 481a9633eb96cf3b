"""The job: fetches openings from public feeds and upserts them, keeping when each was first seen.

    job, report                 one run, and what it says about its sources
    fetching, storing           its two halves: from the network to the staging tables, and from there in pieces
    turns, readings, doubt      whose turn it is; when one reading is not enough; what has to be said twice
    cli, check, status, output  for people: the verbs `signals` and `sources`
    doctor                      what `cronlease doctor` asks
    store/                      the database: upsert, changes, source_state, lock, suspects, orphaned_sources
    sources_file, collect       which sources there are; one source from the network to openings, and how it did
    http/                       fetch -> network -> lookup; body, hosts. Bounded, and only to where a source may lead
    feeds/                      the kinds of feed, from bytes to openings: pure
    settings, errors            small values

Knows nothing of HTTP triggers, schedules or leases; of cronlease only what a Run offers, and its
loader of SQL.
"""

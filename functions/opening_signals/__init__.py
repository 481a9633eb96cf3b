"""The job: fetches openings from public feeds and upserts them, keeping when each was first seen.

    job, report                 one run, and what it reports about its sources
    fetching, storing           its two halves: from the network to the staging tables, and from there to the openings
    limiter, readings           how many sources are fetched at the same time; when one reading is not enough
    sources_file                which sources there are
    collect, source_result      one source from the network to openings, and its result
    cli, check, status, output  the commands `signals` and `sources`
    doctor, page, emulation     what the job adds to `cronlease doctor`, to the status page and to the emulator
    store/                      the database: upsert, source_state, lock, suspects, orphaned_sources
    http/                       fetch -> network -> lookup; body, hosts. Bounded, and only to allowed addresses
    feeds/                      the kinds of feed, from bytes to openings: pure
    samples/                    the sample feeds of the emulator
    settings, errors            small values

Knows nothing of HTTP triggers, schedules or leases. Of cronlease it knows what a Run offers, and the SQL loader.
"""

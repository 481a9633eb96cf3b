-- These sources answered: to the end, or that nothing has changed, which says nothing of how many items they have.
update public.opening_sources s
set definition = r.definition,
    items = coalesce(r.items, s.items),
    last_ok_at = transaction_timestamp(),
    last_seen_at = transaction_timestamp(),
    failures = 0,
    last_error = null,
    etag = r.etag,
    last_modified = r.last_modified,
    next_fetch_at = null,
    fetching_run = null,
    fetching_definition = null,
    fetching_alone = false
from jsonb_to_recordset(%(results)s::jsonb) as r (name text, definition text, items bigint, etag text, last_modified text)
where s.name = r.name

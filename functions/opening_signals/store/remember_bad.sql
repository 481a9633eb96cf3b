-- These sources failed: each waits as a run does that failed as often. What was remembered of another definition
-- is forgotten.
update public.opening_sources s
set definition = r.definition,
    failures = g.failures,
    last_error = r.error,
    etag = case when g.same then s.etag end,
    last_modified = case when g.same then s.last_modified end,
    next_fetch_at = transaction_timestamp() + r.delay,
    -- Blamed once for one run.
    fetching_run = null
from jsonb_to_recordset(%(results)s::jsonb) as r (name text, definition text, error text, delay interval)
join lateral (
  select
    o.definition = r.definition as same,
    case when o.definition = r.definition then o.failures else 0 end + 1 as failures
  from public.opening_sources o
  where o.name = r.name
) g
  on true
where s.name = r.name

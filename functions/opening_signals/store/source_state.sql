-- name: load_source_state
-- Without a stored opening there are no validators: the source has to send everything again.
select
  s.name,
  s.definition,
  s.failures,
  s.last_error,
  case when here.openings then s.etag end as etag,
  case when here.openings then s.last_modified end as last_modified,
  case
    when s.next_fetch_at > clock_timestamp() then date_trunc('minute', s.next_fetch_at at time zone 'UTC')::text
  end as waits_until,
  s.fetching_definition,
  exists (select from public.abandoned_runs a where a.request_id = s.fetching_run) as died,
  s.fetching_alone as alone,
  s.last_ok_at is not null as known,
  s.doubt is not null as doubted,
  s.asked_to_wait
from public.opening_sources s
cross join lateral (
  select exists (select from public.opening_signals o where o.source = s.name) as openings
) here
where s.name = any (%(sources)s)

-- name: record_successes
-- These sources, whose rows the caller has locked, were read to the end, or answered that nothing has changed, which
-- leaves `items` as it is. Where openings may have been missed (not `sure`), last_seen_at stays.
update public.opening_sources s
set definition = r.definition,
    items = coalesce(r.items, s.items),
    last_ok_at = transaction_timestamp(),
    last_seen_at = case when r.sure then transaction_timestamp() else s.last_seen_at end,
    doubt = r.doubt,
    doubted_at = case when r.doubt is not null then transaction_timestamp() end,
    asked_to_wait = false,
    failures = 0,
    last_error = null,
    etag = r.etag,
    last_modified = r.last_modified,
    next_fetch_at = null,
    fetching_run = null,
    fetching_definition = null,
    fetching_alone = false
from jsonb_to_recordset(%(results)s::jsonb) as r (
  name text, definition text, items bigint, etag text, last_modified text, doubt text, sure boolean
)
where s.name = r.name

-- name: record_failures
-- Each of these sources waits as long as it asked for, or as long as a run that failed as often. The state of another
-- definition is dropped.
update public.opening_sources s
set definition = r.definition,
    failures = case when s.definition = r.definition then s.failures else 0 end + 1,
    last_error = r.error,
    etag = case when s.definition = r.definition then s.etag end,
    last_modified = case when s.definition = r.definition then s.last_modified end,
    next_fetch_at = transaction_timestamp() + r.delay,
    asked_to_wait = r.asked_to_wait,
    doubt = case when s.definition = r.definition then s.doubt end,
    doubted_at = case when s.definition = r.definition then s.doubted_at end,
    -- A run is blamed on a source once.
    fetching_run = null
from jsonb_to_recordset(%(results)s::jsonb) as r (
  name text, definition text, error text, delay interval, asked_to_wait boolean
)
where s.name = r.name

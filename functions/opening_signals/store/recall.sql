-- What is remembered of these sources. Without its openings a source has to be asked for all of them again.
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
  s.fetching_alone as alone
from public.opening_sources s
cross join lateral (
  select exists (select from public.opening_signals o where o.source = s.name) as openings
) here
where s.name = any (%(sources)s)

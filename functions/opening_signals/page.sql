-- name: sources
-- The state of at most 200 sources, failing ones first.
select coalesce(jsonb_agg(to_jsonb(source)), '[]')
from (
  select
    s.name,
    s.items,
    s.failures,
    s.last_ok_at,
    s.next_fetch_at,
    left(s.last_error, 500) as last_error
  from public.opening_sources s
  order by s.failures desc, s.name
  limit 200
) source

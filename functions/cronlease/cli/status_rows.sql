-- name: read_overview
-- What GET /status shows of the schedules, each with how long its newest runs took, and what time it is.
with found as materialized (
  select public.read_refresh_status(p_runs => 500, p_schedules => %(limit)s::integer) as document
),
recent as (
  select
    r.run ->> 'function_name' as function_name,
    jsonb_agg(
      extract(epoch from (r.run ->> 'finished_at')::timestamptz - (r.run ->> 'started_at')::timestamptz)
      order by (r.run ->> 'fence')::bigint
    ) as seconds
  from found
  cross join lateral jsonb_array_elements(found.document -> 'runs') as r (run)
  -- Of the others nobody knows how long they worked.
  where r.run ->> 'status' in ('success', 'partial', 'failed')
  group by 1
)
select jsonb_build_object(
  'now', clock_timestamp(),
  'schedules', coalesce(
    jsonb_agg(s.document || jsonb_build_object('seconds', coalesce(recent.seconds, '[]'))),
    '[]'
  )
)
from found
cross join lateral jsonb_array_elements(found.document -> 'schedules') as s (document)
left join recent on recent.function_name = s.document ->> 'function_name'

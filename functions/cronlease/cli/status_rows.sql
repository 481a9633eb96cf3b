-- name: read_overview
-- The schedules as GET /status shows them, with the durations of their newest runs, and the database's time.
with answer as materialized (
  select public.read_refresh_status(p_runs => 500, p_schedules => %(limit)s::integer, p_all => true) as document
),
recent as (
  select
    r.run ->> 'function_name' as function_name,
    jsonb_agg(
      extract(epoch from (r.run ->> 'finished_at')::timestamptz - (r.run ->> 'started_at')::timestamptz)
      order by (r.run ->> 'fence')::bigint
    ) as seconds
  from answer
  cross join lateral jsonb_array_elements(answer.document -> 'runs') as r (run)
  -- How long the others worked is not known.
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
from answer
cross join lateral jsonb_array_elements(answer.document -> 'schedules') as s (document)
left join recent on recent.function_name = s.document ->> 'function_name'

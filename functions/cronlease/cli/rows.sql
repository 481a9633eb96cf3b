-- name: list_schedules
-- The schedules in one state or in any: due and running ones first, completed ones last.
select jsonb_build_object(
  'now', clock_timestamp(),
  'schedules', coalesce(jsonb_agg(to_jsonb(listed)), '[]')
)
from (
  select s.*
  from public.refresh_status s
  where s.state = coalesce(%(state)s::text, s.state)
  order by s.completed_at is not null, s.next_run_at nulls first, s.function_name
  limit %(limit)s::bigint
) listed

-- name: schedule_names
-- Names to suggest one from; where there are very many, only some of them.
select array(
  select s.function_name
  from public.refresh_schedule s
  limit 5000
)

-- name: list_schedules
-- The schedules in one of the states, or in any: what is due or running first, what has completed last.
select jsonb_build_object(
  'now', clock_timestamp(),
  'schedules', coalesce(jsonb_agg(to_jsonb(found)), '[]')
)
from (
  select s.*
  from public.refresh_status s
  where s.state = coalesce(%(state)s::text, s.state)
  order by s.completed_at is not null, s.next_run_at nulls first, s.function_name
  limit %(limit)s::bigint
) found

-- name: schedule_names
-- Names of schedules, to find the one that was meant; of very many only some.
select array(
  select s.function_name
  from public.refresh_schedule s
  limit 5000
)

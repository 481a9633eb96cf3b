-- name: read_schedule
-- One schedule with its newest runs, and what time it is; the schedule is null where there is none.
select jsonb_build_object(
  'now', clock_timestamp(),
  'schedule', (
    select to_jsonb(s) || jsonb_build_object(
      'args', public.readable_args(p_args => t.args),
      'every_is_readable', coalesce(public.is_band(t.every), public.is_cron(t.cron), true)
    )
    from public.refresh_status s
    join public.refresh_schedule t on t.function_name = s.function_name
    where s.function_name = %(name)s::text
  ),
  'runs', (
    select coalesce(
      jsonb_agg(
        to_jsonb(r) || jsonb_build_object('args', public.readable_args(p_args => r.args))
        order by r.fence desc
      ),
      '[]'
    )
    from (
      select *
      from public.refresh_runs
      where function_name = %(name)s::text
      order by fence desc
      limit %(runs)s::bigint
    ) r
  )
)

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

-- One schedule with its newest runs, and what time it is; the schedule is null where there is none.
select jsonb_build_object(
  'now', clock_timestamp(),
  'schedule', (
    select to_jsonb(s) || jsonb_build_object(
      'args', public.readable_args(p_args => t.args),
      'every_is_readable', coalesce(public.is_band(t.every), true)
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

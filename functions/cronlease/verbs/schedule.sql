-- One schedule with its newest runs, and what time it is; the schedule is null where there is none.
select jsonb_build_object(
  'now', clock_timestamp(),
  'schedule', (
    select to_jsonb(s) || jsonb_build_object(
      'args', t.args,
      'every_is_readable', coalesce(public.is_band(t.every), true)
    )
    from public.refresh_status s
    join public.refresh_schedule t on t.function_name = s.function_name
    where s.function_name = %(name)s
  ),
  'runs', (
    select coalesce(jsonb_agg(to_jsonb(r) order by r.fence desc), '[]')
    from (
      select *
      from public.refresh_runs
      where function_name = %(name)s
      order by fence desc
      limit %(runs)s
    ) r
  )
)

-- The schedules and the newest runs as one document, for GET /status: one round trip, and quick with a million
-- schedules. Of many it shows those that run, then those that are due next, then what is paused, then the ones
-- that completed last. The args of the runs only where p_with_args says so: they may be for fewer eyes.
create or replace function public.read_refresh_status(
  p_runs integer default 20,
  p_schedules integer default 100,
  p_with_args boolean default true
) returns jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- What is shown lies at one end of an index, whatever the planner guesses.
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
  with candidates as (
    (
      select s.function_name, 1 as place, row_number() over (order by s.locked_until rows unbounded preceding) as turn
      from public.refresh_schedule s
      where s.locked_until is not null
      order by s.locked_until
      limit p_schedules
    )
    union all
    (
      select s.function_name, 2, row_number() over (order by s.next_run_at nulls first rows unbounded preceding)
      from public.refresh_schedule s
      where s.completed_at is null
        and s.paused_at is null
      order by s.next_run_at nulls first
      limit p_schedules
    )
    union all
    (
      select s.function_name, 3, row_number() over (order by s.paused_at desc rows unbounded preceding)
      from public.refresh_schedule s
      where s.paused_at is not null
      order by s.paused_at desc
      limit p_schedules
    )
    union all
    (
      select s.function_name, 4, row_number() over (order by s.completed_at desc rows unbounded preceding)
      from public.refresh_schedule s
      where s.completed_at is not null
      order by s.completed_at desc
      limit p_schedules
    )
  ),
  chosen as (
    select c.function_name
    from candidates c
    group by c.function_name
    order by min(c.place), min(c.turn)
    limit p_schedules
  )
  select jsonb_build_object(
    'schedules', coalesce(
      (
        select jsonb_agg(to_jsonb(s) order by s.function_name)
        from public.refresh_status s
        -- An array, not a join: the few rows are looked up by their key, whatever the planner guesses.
        where s.function_name = any (array(select chosen.function_name from chosen))
      ),
      '[]'
    ),
    'runs', coalesce(
      (
        select jsonb_agg(
          case
            when p_with_args then to_jsonb(r) || jsonb_build_object('args', public.readable_args(p_args => r.args))
            else to_jsonb(r) - 'args'
          end
          order by r.started_at desc
        )
        from (select * from public.refresh_runs order by started_at desc limit p_runs) r
      ),
      '[]'
    )
  )
$$;

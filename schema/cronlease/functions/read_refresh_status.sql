-- The schedules and the newest runs as one document, for GET /status: one round trip, and quick with a million
-- schedules. Of many it shows those that run, then those that are due next, then what is paused, then the ones
-- that completed last. The args of the runs are included only with p_with_args: not everybody may see
-- them. Without p_all, a schedule has only the columns and states that version 0.1 knows: its `cronlease run-due` and
-- `status` fail on any other.
create or replace function public.read_refresh_status(
  p_runs integer default 20,
  p_schedules integer default 100,
  p_with_args boolean default true,
  p_all boolean default false
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
        select jsonb_agg(
          case
            when p_all then to_jsonb(s)
            else jsonb_build_object(
              'function_name', s.function_name,
              'state', case s.state when 'late' then 'pending' when 'breaker_open' then 'paused' else s.state end,
              'due', s.due,
              'next_run_at', s.next_run_at,
              'last_run_at', s.last_run_at,
              'last_status', s.last_status,
              'last_error', s.last_error,
              'run_count', s.run_count,
              'failures', s.failures,
              'abandoned', s.abandoned,
              'locked_by', s.locked_by,
              'locked_until', s.locked_until,
              'fence', s.fence,
              'action', s.action,
              'every', s.every,
              'once', s.once,
              'completed_at', s.completed_at,
              'paused_at', s.paused_at,
              'paused_reason', s.paused_reason
            )
          end
          order by s.function_name
        )
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

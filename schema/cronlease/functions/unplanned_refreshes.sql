-- What plans need of the rows that a dispatcher should plan, for these actions, at most a hundred: those that may not
-- run as they are planned, those that somebody edited, and those of a function whose own cadence has changed.
create or replace function public.unplanned_refreshes(
  p_actions text[],
  p_cadences text[] default null,
  p_most_attempts integer[] default null,
  p_lates interval[] default null
) returns jsonb
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- As in take_due_refreshes: each kind of row lies at one end of an index.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  return coalesce(
    (
      select jsonb_agg(found.plan)
      from (
        select distinct public.refresh_plan(s.schedule, v_now) as plan
        from unnest(p_actions, p_cadences, p_most_attempts, p_lates) as wanted (action, cadence, attempts, late)
        cross join lateral (
          (
            select d as schedule
            from public.refresh_schedule d
            where d.completed_at is null
              and d.paused_at is null
              and d.action = wanted.action
              and coalesce(d.next_run_at, '-infinity') <= v_now
            order by coalesce(d.next_run_at, '-infinity'), d.id
            limit 100
          )
          union all
          (
            select e as schedule
            from public.refresh_schedule e
            where e.completed_at is null
              and not e.once
              and (e.planned_from <> coalesce(e.cron || ' ' || coalesce(e.time_zone, 'UTC'), e.every)
                or (e.planned_from is null and e.cron is not null))
              and e.action = wanted.action
            limit 100
          )
          union all
          (
            select o as schedule
            from public.refresh_schedule o
            where o.function_name = wanted.action
              and o.action = wanted.action
              and o.completed_at is null
          )
        ) s
        where (s.schedule).paused_at is null
          and coalesce((s.schedule).locked_until <= v_now, true)
          and public.refresh_cadence(s.schedule, wanted.cadence) is distinct from 'hit'
          and public.refresh_needs_plan(s.schedule, wanted.cadence, wanted.attempts, wanted.late, v_now)
        limit 100
      ) found
    ),
    '[]'
  );
end
$$;

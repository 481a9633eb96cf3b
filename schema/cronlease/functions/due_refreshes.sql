-- How many rows a claim for these actions could take now, and how many are due whose action is not among them:
-- those are left alone, and the oldest of them named.
create or replace function public.due_refreshes(
  p_actions text[] default null,
  p_cadences text[] default null,
  p_most_attempts integer[] default null,
  p_lates interval[] default null,
  out due bigint,
  out unknown bigint,
  out unknown_names text[]
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- As in take_due_refreshes. No condition may ask for both kinds of due rows, because no index could serve it.
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  select
    count(*) filter (
      where (p_actions is null or s.action = any (p_actions))
        and (s.every is null or public.is_band(s.every))
        and ((s.schedule).planned_from is distinct from 'hit' or coalesce(s.every, (s.schedule).cron) is not null)
        and public.refresh_cadence(s.schedule, p_cadences[array_position(p_actions, s.action)]) is distinct from 'hit'
        and not public.refresh_is_spent(
          s.schedule,
          p_cadences[array_position(p_actions, s.action)],
          p_most_attempts[array_position(p_actions, s.action)],
          p_lates[array_position(p_actions, s.action)],
          v_now
        )
    ),
    count(*) filter (
      where s.action <> all (p_actions)
        and public.refresh_cadence(s.schedule) is distinct from 'hit'
    )
  into due, unknown
  from (
    select n.action, n.every, n.locked_until, n.breaker_until, n as schedule
    from public.refresh_schedule n
    where n.completed_at is null
      and n.paused_at is null
      and n.next_run_at is null
    union all
    select d.action, d.every, d.locked_until, d.breaker_until, d as schedule
    from public.refresh_schedule d
    where d.completed_at is null
      and d.paused_at is null
      and d.next_run_at <= v_now
  ) s
  where (s.locked_until is null or s.locked_until <= v_now)
    and (s.breaker_until is null or s.breaker_until <= v_now);

  unknown_names := '{}';
  if unknown > 0 then
    unknown_names := array(
      select s.function_name
      from (
        (
          select n.*
          from public.refresh_schedule n
          where n.completed_at is null
            and n.paused_at is null
            and n.next_run_at is null
            and (n.locked_until is null or n.locked_until <= v_now)
            and n.action <> all (p_actions)
            and public.refresh_cadence(n) is distinct from 'hit'
          limit 20
        )
        union all
        (
          select d.*
          from public.refresh_schedule d
          where d.completed_at is null
            and d.paused_at is null
            and d.next_run_at <= v_now
            and (d.locked_until is null or d.locked_until <= v_now)
            and d.action <> all (p_actions)
            and public.refresh_cadence(d) is distinct from 'hit'
          order by d.next_run_at nulls first
          limit 20
        )
      ) s
      order by s.next_run_at nulls first, s.id
      limit 20
    );
  end if;
end
$$;

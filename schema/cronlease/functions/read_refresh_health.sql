-- The schedules that are not well, for GET /health/schedules: late, failing three times in a row, or stopped by their
-- breaker. At most a hundred of each; those that a person has paused are not among them. Quick with a million rows.
create or replace function public.read_refresh_health() returns jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
set enable_seqscan = off
set jit = off
as $$
  with moment as materialized (
    select clock_timestamp() as at
  ),
  unwell as (
    select s.function_name, s.breaker_until is not null as is_open
    from public.refresh_schedule s
    where (s.failures >= 3 or s.breaker_until is not null)
      and s.paused_at is null
      and s.completed_at is null
    limit 200
  )
  select jsonb_build_object(
    'late', array(
      select s.function_name
      from public.refresh_schedule s
      where s.late_at <= (select moment.at from moment)
        and s.completed_at is null
        and s.paused_at is null
        and s.breaker_until is null
        and public.refresh_is_late(s, (select moment.at from moment))
      order by s.late_at
      limit 100
    ),
    'failing', array(select u.function_name from unwell u where not u.is_open order by u.function_name limit 100),
    'breaker_open', array(select u.function_name from unwell u where u.is_open order by u.function_name limit 100)
  )
$$;

-- Clears leases that have run out and whose run started at least that long ago, and runs of that age that were left
-- running without a lease; returns how many. The dead runs are closed as abandoned and counted. A live lease is never
-- touched, and a row that is busy is left to whoever is busy with it.
create or replace function public.recover_stale_dispatches(p_older_than interval default '5 minutes') returns integer
language sql
set lock_timeout = '2s'
as $$
  with stale as (
    select s.id, s.function_name, s.locked_by
    from public.refresh_schedule s
    where s.id = any (
      array(
        select o.id
        from public.refresh_schedule o
        where o.locked_until is not null
        union all
        select o.id
        from public.refresh_runs r
        join public.refresh_schedule o on o.function_name = r.function_name
        where r.status = 'running'
          and o.locked_by is null
      )
    )
      -- These are checked on the row as it is once nobody else can change it.
      and coalesce(s.locked_until <= clock_timestamp(), true)
      and not exists (
        select
        from public.refresh_runs r
        where r.function_name = s.function_name
          and r.status = 'running'
          and r.started_at > clock_timestamp() - p_older_than
      )
    for no key update skip locked
  ),
  closed as (
    update public.refresh_runs r
    set status = 'abandoned',
        finished_at = clock_timestamp(),
        error = case
          when stale.locked_by is null then 'the run never finished: it was left without a lease'
          else 'the run never finished: its lease ran out and was cleared'
        end
    from stale
    where r.function_name = stale.function_name
      and r.status = 'running'
  ),
  freed as (
    update public.refresh_schedule s
    set locked_by = null,
        locked_until = null,
        last_status = 'abandoned',
        last_error = case
          when s.locked_by is null then 'the run never finished: it was left without a lease'
          else 'the run never finished: its lease ran out and was cleared'
        end,
        abandoned = s.abandoned + 1,
        incident_at = coalesce(s.incident_at, clock_timestamp())
    -- An array, not a join: the few rows are looked up by their key, whatever the planner guesses.
    where s.id = any (array(select stale.id from stale))
    returning s.id
  )
  select count(*)::integer from freed
$$;

-- Clears leases that have run out and whose run started at least that long ago; answers how many. The dead
-- runs are closed as abandoned and counted. A live lease is never touched, and a row that is busy is left
-- to whoever is busy with it.
create or replace function public.recover_stale_dispatches(p_older_than interval default '5 minutes') returns integer
language sql
set lock_timeout = '2s'
as $$
  with stale as (
    select s.id, s.function_name, s.locked_by
    from public.refresh_schedule s
    where s.locked_until <= clock_timestamp()
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
        error = 'the run never finished: its lease ran out and was cleared'
    from stale
    where r.function_name = stale.function_name
      and r.status = 'running'
  ),
  freed as (
    update public.refresh_schedule s
    set locked_by = null,
        locked_until = null,
        abandoned = s.abandoned + 1
    from stale
    where s.id = stale.id
    returning s.id
  )
  select count(*)::integer from freed
$$;

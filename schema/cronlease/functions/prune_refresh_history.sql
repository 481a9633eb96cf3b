-- Deletes what is older than the retention, at most p_limit rows of each kind: runs of any name, and one-shots that
-- have completed. Returns how many rows. Never deletes a run that is recorded as running, nor the newest run of a
-- name that has a row: a row that is deleted and comes back takes its fence from that run. Waits for nobody.
create or replace function public.prune_refresh_history(
  p_retention interval default '30 days',
  p_limit integer default 1000
) returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- What is deleted lies at one end of an index, whatever the planner guesses.
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_before timestamptz := clock_timestamp() - greatest(coalesce(p_retention, interval '30 days'), interval '1 hour');
  v_limit integer := greatest(0, least(coalesce(p_limit, 1000), 10000));
  v_oldest timestamptz;
  v_since timestamptz;
  v_count integer;
  v_deleted integer;
begin
  if not pg_try_advisory_xact_lock(public.refresh_lock_key('prune'), 0) then
    -- Another process is deleting; it will get to the same rows.
    return 0;
  end if;

  delete from public.refresh_schedule s
  where s.id = any (
    array(
      select o.id
      from public.refresh_schedule o
      where o.completed_at < v_before
        and o.locked_by is null
      order by o.completed_at
      limit v_limit
      for update skip locked
    )
  );
  get diagnostics v_deleted = row_count;

  select r.started_at into v_oldest
  from public.refresh_runs r
  order by r.started_at
  limit 1;
  -- From the oldest run, and from a random place: the runs that must stay gather at the old end, and however many
  -- there are, those behind them get their turn.
  foreach v_since in array array[v_oldest, v_oldest + random() * (v_before - v_oldest)] loop
    exit when v_since is null or v_since >= v_before;
    delete from public.refresh_runs d
    where d.request_id = any (
      array(
        select r.request_id
        from (
          select o.request_id, o.function_name, o.fence, o.status
          from public.refresh_runs o
          where o.started_at >= v_since
            and o.started_at < v_before
          order by o.started_at
          limit v_limit
        ) r
        where r.status <> 'running'
          and (
            exists (
              select
              from public.refresh_runs newer
              where newer.function_name = r.function_name
                and newer.fence > r.fence
            )
            or not exists (select from public.refresh_schedule s where s.function_name = r.function_name)
          )
      )
    );
    get diagnostics v_count = row_count;
    v_deleted := v_deleted + v_count;
  end loop;
  return v_deleted;
end
$$;

-- Closes many runs in one commit. Each is an object with the arguments of finish_refresh_run by their names, without
-- p_, and is fenced by itself: one whose lease is not its own is answered as lost, and the others are closed. The rows
-- are locked in the order of their IDs, and nobody waits: a run whose row somebody else has locked is answered as busy,
-- and its caller finishes it by itself. A row that raises costs the whole batch: the caller then does so for each run.
create or replace function public.finish_refresh_runs(
  p_ends jsonb,
  out request_id uuid,
  out status text,
  out next_run_at timestamptz
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- One plan serves every call: making one costs more than the ends.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_run record;
  v_locked text[];
begin
  v_locked := array(
    select s.locked_by
    from public.refresh_schedule s
    where s.function_name = any (array(select run ->> 'function_name' from jsonb_array_elements(p_ends) run))
      and s.locked_by = any (array(select run ->> 'request_id' from jsonb_array_elements(p_ends) run))
    order by s.id
    for no key update skip locked
  );
  for v_run in
    select *
    from jsonb_to_recordset(p_ends) as run (
      function_name text,
      request_id uuid,
      fence bigint,
      status text,
      delay interval,
      error text,
      fetched bigint,
      inserted bigint,
      updated bigint,
      unchanged bigint,
      closed bigint,
      retention interval,
      planned_from text,
      slot_at timestamptz,
      attempts integer,
      late interval,
      pause_after integer,
      probe interval,
      late_after interval,
      addresses text[]
    )
  loop
    request_id := v_run.request_id;
    if v_run.request_id::text <> all (v_locked) and exists (
      select
      from public.refresh_schedule s
      where s.function_name = v_run.function_name
        and s.locked_by = v_run.request_id::text
        and s.fence = v_run.fence
    ) then
      status := 'busy';
      next_run_at := null;
      return next;
      continue;
    end if;
    select coalesce(e.status, 'lost'), e.next_run_at
    into status, next_run_at
    from public.end_refresh_run(
      p_function_name => v_run.function_name,
      p_request_id => v_run.request_id,
      p_fence => v_run.fence,
      p_status => v_run.status,
      p_delay => coalesce(v_run.delay, interval '0'),
      p_error => v_run.error,
      p_fetched => v_run.fetched,
      p_inserted => v_run.inserted,
      p_updated => v_run.updated,
      p_unchanged => v_run.unchanged,
      p_closed => v_run.closed,
      p_retention => coalesce(v_run.retention, interval '30 days'),
      p_planned_from => v_run.planned_from,
      p_slot_at => v_run.slot_at,
      p_attempts => v_run.attempts,
      p_late => v_run.late,
      p_pause_after => v_run.pause_after,
      p_probe => v_run.probe,
      p_late_after => v_run.late_after,
      p_addresses => v_run.addresses
    ) e;
    return next;
  end loop;
end
$$;

-- Closes runs, frees their leases and writes the next run times, as refresh_after_end decides. Each end is an object
-- with the arguments of finish_refresh_run by their names, without p_, and is fenced by itself: the status is null where
-- the lease is not ours. The fence decides, not the clock: late but not replaced may commit. A run that this request
-- already closed keeps its recorded end, whatever is passed now: that is how a commit whose answer was lost is resolved.
-- The rows are locked in the order of their IDs, and nobody waits: a run whose row somebody else has locked is answered
-- as busy. Which alerts go to the addresses is decided here, too. A retention out of bounds is cut to the bounds.
-- For finish_refresh_run and finish_refresh_runs.
create or replace function public.end_refresh_runs(
  p_ends jsonb,
  out request_id uuid,
  out status text,
  out next_run_at timestamptz
)
returns setof record
language plpgsql
-- Every row is found by its name or ID. With old or missing statistics the planner must not read the tables instead.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
-- One plan serves every call: making one costs more than the ends.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_ours bigint[];
  v_now timestamptz;
  v_end record;
begin
  v_ours := array(
    select run.ordinality
    from rows from (jsonb_to_recordset(p_ends) as (function_name text, request_id uuid, fence bigint))
      with ordinality as run
    join public.refresh_schedule s on s.function_name = run.function_name
    where s.locked_by = run.request_id::text
      and s.fence = run.fence
    order by s.id
    for no key update of s skip locked
  );
  v_now := clock_timestamp();

  for v_end in
    with asked as (
      select distinct on (run.request_id) run.*
      from rows from (
        jsonb_to_recordset(p_ends) as (
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
      ) with ordinality as run
      order by run.request_id, run.ordinality
    ),
    ended as materialized (
      select
        a.*,
        case
          when (s.held).id is not null then
            public.refresh_after_end(
              p_row => s.held,
              p_slot => r.slot,
              p_attempt => r.attempt,
              p_at => v_now,
              p_status => a.status,
              p_delay => a.delay,
              p_error => a.error,
              p_planned_from => a.planned_from,
              p_slot_at => a.slot_at,
              p_attempts => a.attempts,
              p_late => a.late,
              p_pause_after => a.pause_after,
              p_probe => a.probe,
              p_late_after => a.late_after
            )
        end as schedule
      from asked a
      left join lateral (
        select mine as held
        from public.refresh_schedule mine
        where mine.function_name = a.function_name
          and a.ordinality = any (v_ours)
      ) s on true
      left join public.refresh_runs r on r.request_id = a.request_id
    ),
    freed as (
      update public.refresh_schedule s
      set locked_by = (e.schedule).locked_by,
          locked_until = (e.schedule).locked_until,
          next_run_at = (e.schedule).next_run_at,
          breaker_until = (e.schedule).breaker_until,
          late_at = (e.schedule).late_at,
          incident_at = (e.schedule).incident_at,
          told = public.tell_refresh_end(
            s,
            p_addresses => e.addresses,
            p_status => e.status,
            p_error => e.error,
            p_failures => (e.schedule).failures,
            p_at => v_now,
            p_breaker_until => (e.schedule).breaker_until
          ),
          slot_at = (e.schedule).slot_at,
          last_slot_at = (e.schedule).last_slot_at,
          last_success_slot_at = (e.schedule).last_success_slot_at,
          attempt = (e.schedule).attempt,
          planned_from = (e.schedule).planned_from,
          planned_before = (e.schedule).planned_before,
          planned_at = (e.schedule).planned_at,
          saved = (e.schedule).saved,
          paused_at = (e.schedule).paused_at,
          paused_reason = (e.schedule).paused_reason,
          completed_at = (e.schedule).completed_at,
          last_run_at = (e.schedule).last_run_at,
          last_status = (e.schedule).last_status,
          last_error = (e.schedule).last_error,
          failures = (e.schedule).failures,
          abandoned = (e.schedule).abandoned,
          run_count = (e.schedule).run_count
      from ended e
      where s.id = (e.schedule).id
    ),
    closed as (
      update public.refresh_runs r
      set status = e.status,
          finished_at = v_now,
          error = e.error,
          fetched = e.fetched,
          inserted = e.inserted,
          updated = e.updated,
          unchanged = e.unchanged,
          closed = e.closed,
          -- A failed run without a next run time would look like a released one.
          next_run_at = coalesce((e.schedule).next_run_at, case when e.status = 'failed' then v_now end)
      from ended e
      where r.request_id = e.request_id
        and (e.schedule).id is not null
    )
    select
      e.function_name,
      e.request_id,
      e.fence,
      (e.schedule).id is not null as is_ended,
      e.status,
      (e.schedule).next_run_at,
      (e.schedule).run_count % 100 = 0 as is_round,
      greatest(coalesce(e.retention, interval '30 days'), interval '1 hour') as retention,
      oldest.started_at as oldest_at
    from ended e
    left join lateral (
      select old.started_at
      from public.refresh_runs old
      where old.function_name = e.function_name
      order by old.fence
      limit 1
    ) oldest on true
    order by e.ordinality
  loop
    request_id := v_end.request_id;
    status := v_end.status;
    next_run_at := v_end.next_run_at;
    if not v_end.is_ended then
      select
        case when s.function_name is not null then 'busy' else r.status end,
        r.next_run_at
      into status, next_run_at
      from (select) asked
      left join public.refresh_schedule s
        on s.function_name = v_end.function_name
        and s.locked_by = v_end.request_id::text
        and s.fence = v_end.fence
      left join public.refresh_runs r
        on r.request_id = v_end.request_id
        and r.function_name = v_end.function_name
        and r.fence = v_end.fence
        and r.status in ('success', 'partial', 'failed', 'interrupted')
        -- A failed run that has no next one was released, not finished: nothing of it may be committed any more.
        and (r.status <> 'failed' or r.next_run_at is not null);
      return next;
      continue;
    end if;
    return next;
    if v_end.is_round then
      begin
        -- Names whose runs never finish again leave history behind, too.
        perform public.prune_refresh_history(p_retention => v_end.retention, p_limit => 100);
      exception
        -- Old rows must not keep a run from ending.
        when others then null;
      end;
    elsif v_end.oldest_at < v_now - v_end.retention then
      delete from public.refresh_runs r
      where r.request_id = any (
        array(
          select old.request_id
          from public.refresh_runs old
          where old.function_name = v_end.function_name
            and old.started_at < v_now - v_end.retention
            and old.request_id <> v_end.request_id
            and old.status <> 'running'
          order by old.fence
          limit 100
          -- Somebody else is deleting them already; they win.
          for update skip locked
        )
      );
    end if;
  end loop;
end
$$;

-- Closes the run, frees the lease and writes the next run time; the status is null when the lease is not ours. The
-- fence decides, not the clock: late but not replaced may commit. A run that this request already closed keeps its
-- recorded end, whatever is passed now: that is how a commit whose answer was lost is resolved. A delay or a retention
-- out of bounds is cut to the bounds: the end must be written all the same.
-- p_slot_at is the slot after the one that was served, by the cadence p_planned_from: if the run failed and has no more
-- attempts, or would be tried again too late, the row goes on with that slot. Without a plan, as from version 0.1, a
-- row with a cron waits unplanned. A forced run leaves beat, cron and slots where they are, and so does one whose row
-- was made due by hand before its slot: that one is due next.
-- After p_pause_after failed runs in a row the breaker opens: the next run is a probe, p_probe later, and serves the
-- slot that is due then. Which alerts go to these addresses is decided here, too.
-- For finish_refresh_run and finish_refresh_runs.
create or replace function public.end_refresh_run(
  p_function_name text,
  p_request_id uuid,
  p_fence bigint,
  p_status text,
  p_delay interval default '0',
  p_error text default null,
  p_fetched bigint default null,
  p_inserted bigint default null,
  p_updated bigint default null,
  p_unchanged bigint default null,
  p_closed bigint default null,
  p_retention interval default '30 days',
  p_planned_from text default null,
  p_slot_at timestamptz default null,
  p_attempts integer default null,
  p_late interval default null,
  p_pause_after integer default null,
  p_probe interval default null,
  p_late_after interval default null,
  p_addresses text[] default null,
  out status text,
  out next_run_at timestamptz
)
language plpgsql
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_row public.refresh_schedule;
  v_slot timestamptz;
  v_attempt integer;
  v_cadence text;
  v_is_slotted boolean;
  v_is_forced boolean;
  v_is_out boolean;
  v_goes_on boolean;
  v_late interval;
  v_failures integer;
  v_opens boolean;
  v_next timestamptz;
  v_breaker timestamptz;
  v_told text[];
  v_runs bigint;
  v_done boolean := p_status in ('success', 'partial');
  v_most interval := case when p_status = 'failed' then interval '400 days' else interval '3650 days' end;
  v_delay interval := case when p_delay > v_most then v_most else coalesce(p_delay, interval '0') end;
  v_retention interval := case when p_retention < interval '1 hour' then interval '1 hour' else p_retention end;
begin
  if p_status is null or p_status not in ('success', 'partial', 'failed', 'interrupted') then
    raise exception 'a run ends as success, partial, failed or interrupted, not %', p_status
      using errcode = '22023';
  end if;

  select s.* into v_row
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  for no key update;
  if not found then
    select r.status, r.next_run_at into status, next_run_at
    from public.refresh_runs r
    where r.request_id = p_request_id
      and r.function_name = p_function_name
      and r.fence = p_fence
      and r.status in ('success', 'partial', 'failed', 'interrupted')
      -- A failed run that has no next one was released, not finished: nothing of it may be committed any more.
      and (r.status <> 'failed' or r.next_run_at is not null);
    return;
  end if;

  v_now := clock_timestamp();
  select r.slot, r.attempt into v_slot, v_attempt
  from public.refresh_runs r
  where r.request_id = p_request_id;
  v_cadence := coalesce(p_planned_from, public.refresh_cadence(v_row));
  -- A beat or a cron: neither a band nor the trigger's own.
  v_is_slotted := coalesce(not v_row.once and v_cadence <> 'hit' and position('..' in v_cadence) = 0, false);
  v_is_forced := v_is_slotted and v_attempt is null;
  v_is_out := p_status = 'failed'
    and v_row.attempt >= coalesce(v_row.attempts, p_attempts, case when v_is_slotted then 3 end);
  v_late := case when v_row.missed is null then p_late else v_row.late end;
  v_failures := case p_status
    when 'failed' then v_row.failures + 1
    when 'interrupted' then v_row.failures
    else 0
  end;
  -- A caller that sends no probe, such as version 0.1, does not close what others have opened.
  v_opens := p_status = 'failed'
    and coalesce(not (v_row.once and v_is_out), true)
    and coalesce(
      v_failures >= coalesce(v_row.pause_after, p_pause_after),
      v_row.breaker_until is not null and p_probe is null
    );
  v_breaker := case
    when v_opens then v_now + least(coalesce(v_row.probe, p_probe, interval '6 hours'), interval '400 days')
    when p_status = 'interrupted' then v_row.breaker_until
  end;
  v_goes_on := v_is_slotted and not v_is_forced and not v_opens and p_slot_at is not null and (
    v_done
    or p_status = 'failed' and (
      v_is_out
      or v_now + v_delay >= p_slot_at
      or coalesce(v_now + v_delay > v_slot + v_late, false)
    )
  );
  v_next := case
    when v_row.once and v_done then null
    when v_is_forced
      and v_breaker is null
      and p_status <> 'interrupted'
      and v_row.slot_at > v_now
      and coalesce(v_row.next_run_at <= v_now, true)
      then v_row.slot_at
    when v_is_forced and v_breaker is null then public.refresh_due_closed(v_row, v_now)
    when v_is_forced then greatest(v_row.next_run_at, v_breaker)
    -- The interruption is not its fault: it keeps its place among those that are due.
    when p_status = 'interrupted' and coalesce(v_row.next_run_at <= v_now, true) then v_row.next_run_at
    when v_opens then v_breaker
    when v_goes_on then p_slot_at
    -- Nobody knows the next slot of a cron yet, and a trigger that owns the schedule needs no time.
    when v_done and (v_cadence = 'hit' or position(' ' in v_cadence) > 0) then null
    else v_now + v_delay
  end;
  v_told := public.tell_refresh_end(
    v_row,
    p_addresses => p_addresses,
    p_status => p_status,
    p_error => p_error,
    p_failures => v_failures,
    p_at => v_now,
    p_breaker_until => v_breaker
  );
  update public.refresh_schedule s
  set locked_by = null,
      locked_until = null,
      next_run_at = v_next,
      breaker_until = v_breaker,
      late_at = public.refresh_late_at(
        case when v_cadence = 'hit' and not v_opens then v_now else v_next end,
        v_cadence,
        s.once,
        coalesce(s.late_alert, p_late_after)
      ),
      incident_at = case
        when v_done then null
        when p_status = 'failed' then coalesce(s.incident_at, v_now)
        else s.incident_at
      end,
      told = v_told,
      slot_at = case
        when v_is_forced then s.slot_at
        when v_goes_on then p_slot_at
        when p_planned_from is not null and not v_is_slotted then null
        when v_done and position(' ' in v_cadence) > 0 then null
        else s.slot_at
      end,
      last_slot_at = case when p_status <> 'interrupted' then coalesce(v_slot, s.last_slot_at) else s.last_slot_at end,
      last_success_slot_at = case when v_done then coalesce(v_slot, s.last_success_slot_at) else s.last_success_slot_at end,
      attempt = case
        when v_is_forced then s.attempt
        when v_done or v_goes_on or v_opens and v_is_slotted then 0
        -- The interruption is not its fault: the run does not count.
        when p_status = 'interrupted' and v_attempt is not null then greatest(s.attempt - 1, 0)
        else s.attempt
      end,
      planned_from = case when v_is_forced then s.planned_from else coalesce(p_planned_from, s.planned_from) end,
      planned_before = case
        when p_planned_from is null or v_is_forced or p_planned_from = s.planned_from then s.planned_before
        else s.planned_from
      end,
      planned_at = case
        when p_planned_from is null or v_is_forced or p_planned_from = s.planned_from then s.planned_at
        else v_now
      end,
      saved = case when not v_done then s.saved end,
      paused_at = case when s.once and v_is_out then coalesce(s.paused_at, v_now) else s.paused_at end,
      paused_reason = case
        when s.once and v_is_out and s.paused_at is null then
          format('out of attempts: %s of its runs did not succeed', s.attempt)
        else s.paused_reason
      end,
      completed_at = case when s.once and v_done then v_now end,
      last_run_at = v_now,
      last_status = p_status,
      last_error = p_error,
      failures = v_failures,
      abandoned = 0,
      run_count = s.run_count + 1
  where s.id = v_row.id
  returning p_status, s.next_run_at, s.run_count
  into status, next_run_at, v_runs;

  update public.refresh_runs r
  set status = p_status,
      finished_at = v_now,
      error = p_error,
      fetched = p_fetched,
      inserted = p_inserted,
      updated = p_updated,
      unchanged = p_unchanged,
      closed = p_closed,
      -- A failed run without a next run time would look like a released one.
      next_run_at = coalesce(end_refresh_run.next_run_at, case when p_status = 'failed' then v_now end)
  where r.request_id = p_request_id;

  if v_runs % 100 = 0 then
    begin
      -- Names whose runs never finish again leave history behind, too.
      perform public.prune_refresh_history(p_retention => v_retention, p_limit => 100);
    exception
      -- Old rows must not keep a run from ending.
      when others then null;
    end;
  elsif (
    select old.started_at
    from public.refresh_runs old
    where old.function_name = p_function_name
    order by old.fence
    limit 1
  ) < v_now - v_retention then
    delete from public.refresh_runs r
    where r.request_id = any (
      array(
        select old.request_id
        from public.refresh_runs old
        where old.function_name = p_function_name
          and old.started_at < v_now - v_retention
          and old.request_id <> p_request_id
          and old.status <> 'running'
        order by old.fence
        limit 100
        -- Somebody else is deleting them already; they win.
        for update skip locked
      )
    );
  end if;
end
$$;

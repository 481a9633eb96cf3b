-- The row as the end of its run leaves it, at that moment: free, with its next run time. The one place that decides it.
-- The row is as the run had it, p_slot and p_attempt are those of the run.
-- p_slot_at is the slot after the one that was served, by the cadence p_planned_from: if the run failed and has no more
-- attempts, or would be tried again too late, the row goes on with that slot. Without a plan, as from version 0.1, a
-- row with a cron waits unplanned. A forced run leaves beat, cron and slots where they are, and so does one whose row
-- was made due by hand before its slot: that one is due next.
-- After p_pause_after failed runs in a row the breaker opens: the next run is a probe, p_probe later, and serves the
-- slot that is due then.
-- A delay out of bounds is cut to the bounds: the end must be written all the same. For end_refresh_runs.
create or replace function public.refresh_after_end(
  p_row public.refresh_schedule,
  p_slot timestamptz,
  p_attempt integer,
  p_at timestamptz,
  p_status text,
  p_delay interval,
  p_error text,
  p_planned_from text,
  p_slot_at timestamptz,
  p_attempts integer,
  p_late interval,
  p_pause_after integer,
  p_probe interval,
  p_late_after interval
) returns public.refresh_schedule
language plpgsql
stable
as $$
declare
  v_row public.refresh_schedule := p_row;
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
  v_done boolean := p_status in ('success', 'partial');
  v_most interval := case when p_status = 'failed' then interval '400 days' else interval '3650 days' end;
  v_delay interval := greatest(case when p_delay > v_most then v_most else p_delay end, interval '0');
begin
  if p_status is null or p_status not in ('success', 'partial', 'failed', 'interrupted') then
    raise exception 'a run ends as success, partial, failed or interrupted, not %', p_status
      using errcode = '22023';
  end if;

  v_cadence := coalesce(p_planned_from, public.refresh_cadence(p_row));
  -- A beat or a cron: neither a band nor the trigger's own.
  v_is_slotted := coalesce(not p_row.once and v_cadence <> 'hit' and position('..' in v_cadence) = 0, false);
  v_is_forced := v_is_slotted and p_attempt is null;
  v_is_out := p_status = 'failed'
    and p_row.attempt >= coalesce(p_row.attempts, p_attempts, case when v_is_slotted then 3 end);
  v_late := case when p_row.missed is null then p_late else p_row.late end;
  v_failures := case p_status
    when 'failed' then p_row.failures + 1
    when 'interrupted' then p_row.failures
    else 0
  end;
  -- A caller that sends no probe, such as version 0.1, does not close what others have opened.
  v_opens := p_status = 'failed'
    and coalesce(not (p_row.once and v_is_out), true)
    and coalesce(
      v_failures >= coalesce(p_row.pause_after, p_pause_after),
      p_row.breaker_until is not null and p_probe is null
    );
  v_breaker := case
    when v_opens then p_at + least(coalesce(p_row.probe, p_probe, interval '6 hours'), interval '400 days')
    when p_status = 'interrupted' then p_row.breaker_until
  end;
  v_goes_on := v_is_slotted and not v_is_forced and not v_opens and p_slot_at is not null and (
    v_done
    or p_status = 'failed' and (
      v_is_out
      or p_at + v_delay >= p_slot_at
      or coalesce(p_at + v_delay > p_slot + v_late, false)
    )
  );
  v_next := case
    when p_row.once and v_done then null
    when v_is_forced
      and v_breaker is null
      and p_status <> 'interrupted'
      and p_row.slot_at > p_at
      and coalesce(p_row.next_run_at <= p_at, true)
      then p_row.slot_at
    when v_is_forced and v_breaker is null then public.refresh_due_closed(p_row, p_at)
    when v_is_forced then greatest(p_row.next_run_at, v_breaker)
    -- The interruption is not its fault: it keeps its place among those that are due.
    when p_status = 'interrupted' and coalesce(p_row.next_run_at <= p_at, true) then p_row.next_run_at
    when v_opens then v_breaker
    when v_goes_on then p_slot_at
    -- Nobody knows the next slot of a cron yet, and a trigger that owns the schedule needs no time.
    when v_done and (v_cadence = 'hit' or position(' ' in v_cadence) > 0) then null
    else p_at + v_delay
  end;

  v_row.locked_by := null;
  v_row.locked_until := null;
  v_row.next_run_at := v_next;
  v_row.breaker_until := v_breaker;
  v_row.late_at := public.refresh_late_at(
    case when v_cadence = 'hit' and not v_opens then p_at else v_next end,
    v_cadence,
    p_row.once,
    coalesce(p_row.late_alert, p_late_after)
  );
  if v_done then
    v_row.incident_at := null;
  elsif p_status = 'failed' then
    v_row.incident_at := coalesce(p_row.incident_at, p_at);
  end if;
  if not v_is_forced then
    v_row.slot_at := case
      when v_goes_on then p_slot_at
      when p_planned_from is not null and not v_is_slotted then null
      when v_done and position(' ' in v_cadence) > 0 then null
      else p_row.slot_at
    end;
    v_row.attempt := case
      when v_done or v_goes_on or v_opens and v_is_slotted then 0
      -- The interruption is not its fault: the run does not count.
      when p_status = 'interrupted' and p_attempt is not null then greatest(p_row.attempt - 1, 0)
      else p_row.attempt
    end;
    if p_planned_from is distinct from p_row.planned_from and p_planned_from is not null then
      v_row.planned_from := p_planned_from;
      v_row.planned_before := p_row.planned_from;
      v_row.planned_at := p_at;
    end if;
  end if;
  if p_status <> 'interrupted' then
    v_row.last_slot_at := coalesce(p_slot, p_row.last_slot_at);
  end if;
  if v_done then
    v_row.last_success_slot_at := coalesce(p_slot, p_row.last_success_slot_at);
    v_row.saved := null;
  end if;
  if p_row.once and v_is_out and p_row.paused_at is null then
    v_row.paused_at := p_at;
    v_row.paused_reason := format('out of attempts: %s of its runs did not succeed', p_row.attempt);
  end if;
  v_row.completed_at := case when p_row.once and v_done then p_at end;
  v_row.last_run_at := p_at;
  v_row.last_status := p_status;
  v_row.last_error := p_error;
  v_row.failures := v_failures;
  v_row.abandoned := 0;
  v_row.run_count := p_row.run_count + 1;
  return v_row;
end
$$;

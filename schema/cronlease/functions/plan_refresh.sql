-- Writes a new plan, made by pure code from the database's own time, if planned_from and next_run_at of the row are
-- still what that code was given. Returns whether it was written. A slot is the time it is due at; without one
-- a delay counts from the end of the last run; with neither the row is due now, or whenever it is hit. A one-shot that
-- is out of attempts is paused instead: a person must resume or delete it.
create or replace function public.plan_refresh(
  p_function_name text,
  p_planned_from text,
  p_next_run_at timestamptz,
  p_cadence text,
  p_slot_at timestamptz default null,
  p_delay interval default null,
  p_attempts integer default null,
  p_late_after interval default null
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
  v_row public.refresh_schedule;
  v_now timestamptz;
  v_next timestamptz;
begin
  select s.* into v_row
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for no key update skip locked;
  v_now := clock_timestamp();
  if not found
    or v_row.locked_until > v_now
    or v_row.planned_from is distinct from p_planned_from
    or (case when v_row.next_run_at between '0001-01-02' and '9999-12-30' then v_row.next_run_at end)
      is distinct from p_next_run_at
  then
    -- Somebody else plans the row, has planned it, or runs it: theirs stands.
    return false;
  end if;
  if v_row.once then
    update public.refresh_schedule s
    set paused_at = v_now,
        paused_reason = format('out of attempts: %s of its runs did not succeed', v_row.attempt)
    where s.id = v_row.id
      and s.paused_at is null
      and v_row.attempt >= coalesce(v_row.attempts, p_attempts);
    return found;
  end if;
  v_row.next_run_at := coalesce(p_slot_at, coalesce(v_row.last_run_at, v_now) + p_delay);
  v_next := public.refresh_next_at(v_row, v_now);
  update public.refresh_schedule s
  set next_run_at = v_next,
      late_at = public.refresh_late_at(
        case when p_cadence = 'hit' then coalesce(s.last_run_at, v_now) else v_next end,
        p_cadence,
        false,
        coalesce(s.late_alert, p_late_after)
      ),
      slot_at = p_slot_at,
      attempt = 0,
      planned_from = p_cadence,
      planned_before = case when p_cadence = s.planned_from then s.planned_before else s.planned_from end,
      planned_at = case when p_cadence = s.planned_from then s.planned_at else v_now end
  where s.id = v_row.id;
  return true;
end
$$;

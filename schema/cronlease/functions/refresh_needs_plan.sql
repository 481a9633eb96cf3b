-- Whether whoever looks at this row should plan it: its plan was made from a cadence other than the one in force,
-- or it may not run as it is planned. A row that was never planned is due at its own time, unless a cron or its trigger
-- decides when.
create or replace function public.refresh_needs_plan(
  p_row public.refresh_schedule,
  p_cadence text,
  p_attempts integer,
  p_late interval,
  p_at timestamptz
) returns boolean
language sql
stable
as $$
  select case
    -- Due at any hit, and never by itself: another cadence plans it before run-due or worker may take it.
    when (p_row).planned_from = 'hit' and not (p_row).once then public.refresh_cadence(p_row, p_cadence) <> 'hit'
    when (p_row).next_run_at is null or (p_row).next_run_at <= p_at then
      public.refresh_is_spent(p_row, p_cadence, p_attempts, p_late, p_at)
    when (p_row).planned_from is null then
      coalesce(public.refresh_cadence(p_row, p_cadence) ~ '^hit$| ', false)
    else public.refresh_cadence(p_row, p_cadence) <> (p_row).planned_from and not (p_row).once
  end
$$;

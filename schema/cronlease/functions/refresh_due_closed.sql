-- When the row is due once its breaker is closed: a run that the breaker has put off is due now, or with its slot.
create or replace function public.refresh_due_closed(
  p_row public.refresh_schedule,
  p_at timestamptz
) returns timestamptz
language sql
stable
as $$
  select case
    when (p_row).next_run_at <= (p_row).breaker_until then greatest(p_at, (p_row).slot_at)
    else (p_row).next_run_at
  end
$$;

-- Whether its run is late at that moment: its time went by, longer ago than is usual, and nobody runs it. Never while
-- it is paused, completed or stopped by its breaker.
create or replace function public.refresh_is_late(
  p_row public.refresh_schedule,
  p_at timestamptz
) returns boolean
language sql
stable
as $$
  select coalesce(
    (p_row).late_at <= p_at
    and coalesce((p_row).next_run_at <= p_at, true)
    and coalesce((p_row).locked_until <= p_at, true)
    and (p_row).completed_at is null
    and (p_row).paused_at is null
    and (p_row).breaker_until is null,
    false
  )
$$;

-- The health of a schedule at that moment, in one word: what it does wins over what it waits for, and a failure wins
-- over being late. Stale: its run never finished, and nobody has taken over yet; where nobody will, it is paused.
create or replace function public.refresh_health(
  p_row public.refresh_schedule,
  p_at timestamptz
) returns text
language sql
stable
as $$
  select case
    when (p_row).completed_at is not null then 'completed'
    when (p_row).locked_until > p_at then 'running'
    when (p_row).paused_at is not null then 'paused'
    when (p_row).locked_until is not null then 'stale'
    when (p_row).breaker_until is not null then 'breaker_open'
    when (p_row).failures > 0 then 'failing'
    when public.refresh_is_late(p_row, p_at) then 'late'
    else 'ok'
  end
$$;

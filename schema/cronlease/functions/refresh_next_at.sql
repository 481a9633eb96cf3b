-- When the row is due, as a skip reports it: not before an open breaker lets a probe through.
create or replace function public.refresh_next_at(
  p_row public.refresh_schedule,
  p_at timestamptz
) returns timestamptz
language sql
stable
as $$
  select case
    when (p_row).breaker_until > p_at then greatest((p_row).next_run_at, (p_row).breaker_until)
    else (p_row).next_run_at
  end
$$;

-- How a schedule is at that moment, in one word: what it does wins over what it waits for, and what is wrong over what
-- is late.
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
    when (p_row).failures > 0 then 'failing'
    when (p_row).locked_until is not null or (p_row).next_run_at < p_at - interval '5 minutes' then 'late'
    else 'ok'
  end
$$;

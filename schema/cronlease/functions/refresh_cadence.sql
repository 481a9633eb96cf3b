-- The cadence in force: the row's own, else the caller's, else the one that it was planned from. A cron is its
-- expression and its zone, so only a cron has a space. A one-shot has none.
create or replace function public.refresh_cadence(
  p_row public.refresh_schedule,
  p_cadence text default null
) returns text
language sql
stable
as $$
  select case
    when (p_row).once then null
    when (p_row).cron is not null then (p_row).cron || ' ' || coalesce((p_row).time_zone, 'UTC')
    else coalesce((p_row).every, p_cadence, (p_row).planned_from)
  end
$$;

-- The cadence in force: the row's own, else the caller's, else the one that it was planned from. A cron is its
-- expression and its zone, so only a cron has a space. A one-shot has none. A trigger that took the schedule over from
-- the caller's cadence less than an hour ago keeps it until then, as FOLLOWS_FOR in run/plan.py has it.
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
    when (p_row).every is not null then (p_row).every
    when (p_row).planned_from = 'hit'
      and (p_row).planned_before = p_cadence
      and (p_row).planned_at > clock_timestamp() - interval '1 hour'
      then 'hit'
    else coalesce(p_cadence, (p_row).planned_from)
  end
$$;

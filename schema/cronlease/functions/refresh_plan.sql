-- What the code that plans a row needs to know of it, at that moment. Times beyond what a client can read are null.
create or replace function public.refresh_plan(
  p_row public.refresh_schedule,
  p_at timestamptz
) returns jsonb
language sql
stable
as $$
  select jsonb_build_object(
    'function_name', (p_row).function_name,
    'action', (p_row).action,
    'at', p_at,
    'once', (p_row).once,
    'cron', (p_row).cron,
    'time_zone', (p_row).time_zone,
    'every', (p_row).every,
    'missed', (p_row).missed,
    'late', extract(epoch from (p_row).late),
    'attempts', (p_row).attempts,
    'attempt', (p_row).attempt,
    'planned_from', (p_row).planned_from,
    'planned_before', (p_row).planned_before,
    'planned_at', (p_row).planned_at,
    'next_run_at', case when (p_row).next_run_at between '0001-01-02' and '9999-12-30' then (p_row).next_run_at end,
    'slot_at', (p_row).slot_at,
    'last_slot_at', (p_row).last_slot_at,
    'last_success_slot_at', (p_row).last_success_slot_at,
    'saved', (p_row).saved,
    'abandoned', (p_row).abandoned
  )
$$;

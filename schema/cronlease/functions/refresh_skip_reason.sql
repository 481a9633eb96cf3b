-- Why this row may not run at that moment, or null. The one place that decides it.
-- The order is the answer's order: what needs a person first, then what passes by itself. Kept to what the
-- planner can put in the place of the call: a skip is decided thousands of times for each run.
create or replace function public.refresh_skip_reason(
  p_row public.refresh_schedule,
  p_request_id uuid,
  p_force boolean,
  p_at timestamptz
) returns text
language sql
stable
as $$
  select case
    when (p_row).completed_at is not null then 'completed'
    when (p_row).paused_at is not null then 'paused'
    -- The same request asking again is let through, whatever its own claim has moved.
    when (p_row).locked_by = p_request_id::text then null
    when (p_row).locked_until > p_at then 'locked'
    when (p_row).next_run_at > p_at and not p_force then 'not_due'
  end
$$;

-- Why this row may not run at that moment, or null. The one place that decides it.
-- The order is the answer's order: what needs a person first, then what passes by itself. Kept simple enough
-- for the planner to inline: a skip is decided thousands of times for each run.
create or replace function public.refresh_skip_reason(
  p_row public.refresh_schedule,
  p_request_id uuid,
  p_force boolean,
  p_at timestamptz,
  p_cadence text default null,
  p_attempts integer default null,
  p_late interval default null,
  p_early boolean default false
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
    when p_force then null
    -- Version 0.1 does not know the word; it gets the time of the probe all the same.
    when (p_row).breaker_until > p_at then case when p_early then 'breaker_open' else 'not_due' end
    when (p_row).next_run_at > p_at then
      case
        -- A little early a hit takes the coming slot; a retry waits for its time.
        when p_early
          and (p_row).next_run_at = (p_row).slot_at
          and (p_row).next_run_at <= p_at + public.refresh_early((p_row).planned_from)
          then null
        else 'not_due'
      end
    when public.refresh_is_spent(p_row, p_cadence, p_attempts, p_late, p_at) then 'not_due'
  end
$$;

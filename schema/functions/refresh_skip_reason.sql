-- Why this row may not run at that moment, or null. The one place that decides it.
-- The order is the answer's order: what needs a person first, then what passes by itself.
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
    when (p_row).locked_until > p_at and (p_row).locked_by <> p_request_id::text then 'locked'
    when (p_row).next_run_at > p_at and not p_force then 'not_due'
    -- A cadence that cannot be read must be mended by a person before the job may run.
    when (p_row).every !~ '^\d+(\.\d+)?[smhd](\.\.\d+(\.\d+)?[smhd])?$' then 'schedule_read_error'
    when split_part((p_row).every, '..', 1)::interval > nullif(split_part((p_row).every, '..', 2), '')::interval
      then 'schedule_read_error'
  end
$$;

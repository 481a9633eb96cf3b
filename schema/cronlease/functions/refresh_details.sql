-- What a plan needs of the row, returned with a claim in the same round trip, for a caller that knows of slots: if
-- the lease was granted, or if the row was not due and the caller should plan it; else null. Read after the claim,
-- and with the rights of the caller, as acquire_refresh_lock does.
create or replace function public.refresh_details(
  p_function_name text,
  p_acquired boolean,
  p_reason text default null,
  p_cadence text default null,
  p_attempts integer default null,
  p_late interval default null
) returns jsonb
language plpgsql
as $$
declare
  v_now timestamptz;
  v_details jsonb;
begin
  if p_acquired or p_reason = 'not_due' then
    v_now := clock_timestamp();
    select public.refresh_plan(s.schedule, v_now) into v_details
    from public.refresh_rows s
    where s.function_name = p_function_name
      and (p_acquired or public.refresh_needs_plan(s.schedule, p_cadence, p_attempts, p_late, v_now));
  end if;
  return v_details;
end
$$;

-- Locks the row in the caller's transaction if nobody runs it, and closes, with that error, a run that never
-- finished; returns the row's fence, null when there is no such row. For what may only be done to a row at rest.
create or replace function public.hold_idle_refresh(
  p_function_name text,
  p_error text
) returns bigint
language plpgsql
as $$
declare
  v_row public.refresh_schedule;
  v_busy boolean;
begin
  select s.* into v_row
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for update skip locked;
  v_busy := not found;
  if v_busy then
    select s.* into v_row
    from public.refresh_schedule s
    where s.function_name = p_function_name;
    if not found then
      return null;
    end if;
  end if;
  -- Busy: somebody is claiming the row, or its holder is writing, whatever the clock says of the lease.
  if v_busy or v_row.locked_until > clock_timestamp() then
    raise exception '"%" is running%: wait for it, or unlock it',
      p_function_name,
      coalesce(
        to_char(nullif(v_row.locked_until, 'infinity') at time zone 'UTC', '" until "YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        ''
      )
      using errcode = 'CL004';
  end if;
  perform public.abandon_refresh_run(p_function_name => p_function_name, p_fence => v_row.fence, p_error => p_error);
  return v_row.fence;
end
$$;

-- Ends the pause of a schedule, and closes its breaker; false when there was neither. It is due when it would have
-- been, or now if its breaker was open. Neither time makes it late.
create or replace function public.resume_refresh(
  p_function_name text,
  p_actor text default null
) returns boolean
language plpgsql
set lock_timeout = '2s'
as $$
declare
  v_row public.refresh_schedule;
  v_now timestamptz;
begin
  select s.* into v_row
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for no key update;
  if not found then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  v_now := clock_timestamp();
  if v_row.paused_at is not null or v_row.breaker_until is not null then
    update public.refresh_schedule s
    set paused_at = null,
        paused_reason = null,
        breaker_until = null,
        -- Should it open again, there is another alert.
        told = array_remove(s.told, 'breaker_open'),
        next_run_at = public.refresh_due_closed(s, v_now),
        late_at = case
          when s.breaker_until is not null then greatest(v_now, s.slot_at) + (s.late_at - s.breaker_until)
          else s.late_at + (v_now - s.paused_at)
        end,
        -- A one-shot that was out of attempts has them again.
        attempt = case when s.once then 0 else s.attempt end
    where s.function_name = p_function_name;
    perform public.record_refresh_operation(
      p_function_name => p_function_name,
      p_operation => 'resume',
      p_actor => p_actor
    );
  end if;
  return v_row.paused_at is not null or v_row.breaker_until is not null;
end
$$;

-- Pauses a schedule; false when it was paused already, and then a reason that is given replaces the old one.
-- A run in progress goes on and may finish.
create or replace function public.pause_refresh(
  p_function_name text,
  p_reason text default null,
  p_actor text default null
) returns boolean
language plpgsql
set lock_timeout = '2s'
as $$
declare
  v_paused_at timestamptz;
begin
  select s.paused_at into v_paused_at
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for no key update;
  if not found then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  if v_paused_at is null or p_reason is not null then
    update public.refresh_schedule s
    set paused_at = coalesce(v_paused_at, clock_timestamp()),
        paused_reason = p_reason
    where s.function_name = p_function_name;
    perform public.record_refresh_operation(
      p_function_name => p_function_name,
      p_operation => 'pause',
      p_actor => p_actor,
      p_reason => p_reason
    );
  end if;
  return v_paused_at is null;
end
$$;

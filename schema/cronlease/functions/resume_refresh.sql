-- Ends the pause of a schedule; false when it was not paused. It is due when it would have been.
create or replace function public.resume_refresh(
  p_function_name text,
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
  if v_paused_at is not null then
    update public.refresh_schedule s
    set paused_at = null,
        paused_reason = null,
        -- A one-shot that was out of attempts has them again.
        attempt = case when s.once then 0 else s.attempt end
    where s.function_name = p_function_name;
    perform public.record_refresh_operation(
      p_function_name => p_function_name,
      p_operation => 'resume',
      p_actor => p_actor
    );
  end if;
  return v_paused_at is not null;
end
$$;

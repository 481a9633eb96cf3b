-- Deletes a schedule that is not running; true, or an error that says why not. Its history stays, and a schedule
-- of that name that comes back goes on counting its fence.
create or replace function public.delete_refresh(
  p_function_name text,
  p_actor text default null
) returns boolean
language plpgsql
set lock_timeout = '2s'
as $$
begin
  if public.hold_idle_refresh(
    p_function_name => p_function_name,
    p_error => 'the run never finished: its schedule was deleted'
  ) is null then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  delete from public.refresh_schedule s
  where s.function_name = p_function_name;
  perform public.record_refresh_operation(
    p_function_name => p_function_name,
    p_operation => 'delete',
    p_actor => p_actor
  );
  return true;
end
$$;

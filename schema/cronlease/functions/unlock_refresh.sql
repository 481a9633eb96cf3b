-- An operator's way to break a lease, live or not: it is free immediately, its run is closed as abandoned, and
-- its holder can never write again. A holder that has the row locked, because it is writing or stands still, loses its
-- backend. With a request ID, only the lease of that request. Returns who held it, or still holds it. A broken lease
-- is not a crash, and is not counted as one.
create or replace function public.unlock_refresh(
  p_function_name text,
  p_request_id uuid default null,
  p_actor text default null,
  p_reason text default null,
  out unlocked boolean,
  out locked_by text,
  out locked_until timestamptz
)
language plpgsql
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_id integer;
  v_fence bigint;
  v_stuck text := public.end_refresh_holder(p_function_name => p_function_name, p_locked_by => p_request_id::text);
begin
  if v_stuck is not null then
    raise exception '%, then unlock it again', v_stuck using errcode = '55006';
  end if;
  select s.id, s.fence, s.locked_by, nullif(s.locked_until, 'infinity')
  into v_id, v_fence, locked_by, locked_until
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for no key update;
  if not found then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  unlocked := coalesce(locked_by = coalesce(p_request_id::text, locked_by), false);
  if not unlocked then
    return;
  end if;

  update public.refresh_schedule s
  set locked_by = null,
      locked_until = null,
      last_status = 'abandoned',
      last_error = 'the lease was broken by an operator'
  where s.id = v_id;
  perform public.abandon_refresh_run(
    p_function_name => p_function_name,
    p_fence => v_fence,
    p_error => 'the lease was broken by an operator'
  );
  perform public.record_refresh_operation(
    p_function_name => p_function_name,
    p_operation => 'unlock',
    p_actor => p_actor,
    p_reason => p_reason,
    p_request_id => (
      select r.request_id
      from public.refresh_runs r
      where r.function_name = p_function_name
        and r.fence = v_fence
    )
  );
end
$$;

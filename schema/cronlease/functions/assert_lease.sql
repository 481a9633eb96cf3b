-- Locks the row in the caller's transaction, or raises: from here to the commit nobody can take the lease. From
-- then on the backend can be found, should its client stand still.
create or replace function public.assert_lease(
  p_function_name text,
  p_request_id uuid,
  p_fence bigint
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id integer;
begin
  select s.id into v_id
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  for no key update;
  if not found then
    raise exception 'run % no longer holds the lease of "%"', p_request_id, p_function_name
      using errcode = 'CL001';
  end if;
  -- Shared, and only tried: nobody waits for a predecessor whose backend is still ending.
  perform pg_try_advisory_xact_lock_shared(public.refresh_lock_key('write'), v_id);
end
$$;

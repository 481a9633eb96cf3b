-- Locks the row in the caller's transaction, or raises: from here to the commit nobody can take the lease.
create or replace function public.assert_lease(
  p_function_name text,
  p_request_id uuid,
  p_fence bigint
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  for no key update;
  if not found then
    raise exception 'run % no longer holds the lease of "%"', p_request_id, p_function_name
      using errcode = 'CL001';
  end if;
end
$$;

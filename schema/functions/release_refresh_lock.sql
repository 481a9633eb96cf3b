-- Frees the lease of this request and touches nothing else: the fallback when finish could not be written.
create or replace function public.release_refresh_lock(
  p_function_name text,
  p_request_id uuid
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
begin
  update public.refresh_schedule s
  set locked_by = null,
      locked_until = null
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text;
  return found;
end
$$;

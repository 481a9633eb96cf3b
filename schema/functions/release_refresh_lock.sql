-- Frees the lease of this request and touches nothing else: the fallback when finish could not be written. Without a
-- name it is the row that the request has claimed, for whoever never got to read which one that was.
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
  where s.function_name = coalesce(
      p_function_name,
      (select r.function_name from public.refresh_runs r where r.request_id = p_request_id)
    )
    and s.locked_by = p_request_id::text;
  return found;
end
$$;

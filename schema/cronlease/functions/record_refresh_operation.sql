-- Writes down who did what to a schedule. Rows older than a year are deleted a few at a time, so the table stays
-- small by itself.
create or replace function public.record_refresh_operation(
  p_function_name text,
  p_operation text,
  p_actor text default null,
  p_reason text default null,
  p_request_id uuid default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
begin
  insert into public.refresh_operations (function_name, operation, actor, reason, request_id)
  values (p_function_name, p_operation, left(coalesce(p_actor, session_user), 200), left(p_reason, 1000), p_request_id);
  delete from public.refresh_operations o
  where o.id = any (
    array(
      select old.id
      from public.refresh_operations old
      where old.done_at < clock_timestamp() - interval '1 year'
      order by old.done_at
      limit 100
      for update skip locked
    )
  );
end
$$;

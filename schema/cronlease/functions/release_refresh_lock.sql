-- Frees the lease of this request: the fallback when finish could not be written, and the way back for a claim whose
-- answer nobody used. Without a name it is the row that the request has claimed. Then, as far as the database lets it,
-- the run is closed as failed and counted like one that never finished, so that a run whose end cannot be written is
-- not started again at every hit.
create or replace function public.release_refresh_lock(
  p_function_name text,
  p_request_id uuid
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
  v_id integer;
begin
  update public.refresh_schedule s
  set locked_by = null,
      locked_until = null
  where s.function_name = coalesce(
      p_function_name,
      (select r.function_name from public.refresh_runs r where r.request_id = p_request_id)
    )
    and s.locked_by = p_request_id::text
  returning s.id into v_id;
  if not found then
    return false;
  end if;
  begin
    update public.refresh_runs r
    set status = 'failed',
        finished_at = clock_timestamp(),
        error = 'the run was released: its end could not be written, or its claim was not used'
    where r.request_id = p_request_id
      and r.status = 'running';
    if found then
      update public.refresh_schedule s
      set abandoned = s.abandoned + 1
      where s.id = v_id;
    end if;
  exception
    -- What kept finish from being written is still there: the lease is free, and the next claim closes the run.
    when others then null;
  end;
  return true;
end
$$;

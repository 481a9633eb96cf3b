-- Records, before the job starts, which slot a run serves, if that is later than the one it was claimed for, and how
-- many slots went by without a successful run since the last one served. Raises when the lease is not ours.
create or replace function public.serve_refresh_slot(
  p_function_name text,
  p_request_id uuid,
  p_fence bigint,
  p_slot_at timestamptz,
  p_missed_count integer,
  out attempt integer
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  update public.refresh_schedule s
  set slot_at = p_slot_at,
      last_slot_at = p_slot_at,
      -- A slot other than the planned one starts counting anew.
      attempt = case when s.slot_at = p_slot_at or s.slot_at is null then s.attempt else 1 end
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  returning s.attempt into attempt;
  if not found then
    raise exception 'run % no longer holds the lease of "%"', p_request_id, p_function_name
      using errcode = 'CL001';
  end if;
  update public.refresh_runs r
  set slot = p_slot_at,
      missed = p_missed_count,
      attempt = serve_refresh_slot.attempt
  where r.request_id = p_request_id;
end
$$;

-- Closes the run, frees the lease and writes the next run time, as end_refresh_runs says, or raises when the lease is not
-- ours, so that the caller's transaction rolls back.
create or replace function public.finish_refresh_run(
  p_function_name text,
  p_request_id uuid,
  p_fence bigint,
  p_status text,
  p_delay interval default '0',
  p_error text default null,
  p_fetched bigint default null,
  p_inserted bigint default null,
  p_updated bigint default null,
  p_unchanged bigint default null,
  p_closed bigint default null,
  p_retention interval default '30 days',
  p_planned_from text default null,
  p_slot_at timestamptz default null,
  p_attempts integer default null,
  p_late interval default null,
  p_pause_after integer default null,
  p_probe interval default null,
  p_late_after interval default null,
  p_addresses text[] default null,
  out status text,
  out next_run_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
begin
  -- Unlike a batch, which has others to end, it waits for whoever has the row.
  perform
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  for no key update;
  select e.status, e.next_run_at into status, next_run_at
  from public.end_refresh_runs(
    p_ends => jsonb_build_array(
      jsonb_build_object(
        'function_name', p_function_name,
        'request_id', p_request_id,
        'fence', p_fence,
        'status', p_status,
        'delay', p_delay,
        'error', p_error,
        'fetched', p_fetched,
        'inserted', p_inserted,
        'updated', p_updated,
        'unchanged', p_unchanged,
        'closed', p_closed,
        'retention', p_retention,
        'planned_from', p_planned_from,
        'slot_at', p_slot_at,
        'attempts', p_attempts,
        'late', p_late,
        'pause_after', p_pause_after,
        'probe', p_probe,
        'late_after', p_late_after,
        'addresses', p_addresses
      )
    )
  ) e;
  if status is null then
    raise exception 'run % no longer holds the lease of "%"', p_request_id, p_function_name
      using errcode = 'CL001';
  end if;
end
$$;

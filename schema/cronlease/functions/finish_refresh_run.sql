-- Closes the run, frees the lease and writes the next run time, as end_refresh_run says, or raises when the lease is not
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
  select e.* into status, next_run_at
  from public.end_refresh_run(
    p_function_name => p_function_name,
    p_request_id => p_request_id,
    p_fence => p_fence,
    p_status => p_status,
    p_delay => p_delay,
    p_error => p_error,
    p_fetched => p_fetched,
    p_inserted => p_inserted,
    p_updated => p_updated,
    p_unchanged => p_unchanged,
    p_closed => p_closed,
    p_retention => p_retention,
    p_planned_from => p_planned_from,
    p_slot_at => p_slot_at,
    p_attempts => p_attempts,
    p_late => p_late,
    p_pause_after => p_pause_after,
    p_probe => p_probe,
    p_late_after => p_late_after,
    p_addresses => p_addresses
  ) e;
  if status is null then
    raise exception 'run % no longer holds the lease of "%"', p_request_id, p_function_name
      using errcode = 'CL001';
  end if;
end
$$;

-- Closes the run of that fence as abandoned if it is open; returns whether it was. The caller has the row locked.
create or replace function public.abandon_refresh_run(
  p_function_name text,
  p_fence bigint,
  p_error text
) returns boolean
language plpgsql
as $$
begin
  update public.refresh_runs r
  set status = 'abandoned',
      finished_at = clock_timestamp(),
      error = p_error
  where r.function_name = p_function_name
    and r.fence >= p_fence
    and r.status = 'running';
  return found;
end
$$;

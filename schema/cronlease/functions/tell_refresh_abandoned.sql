-- Writes an alert that runs of this row never finished, unless there has been one; returns what to add to `told`.
-- A lease that was freed by an operator, or by a hit that could not use its claim, is no reason for an alert.
create or replace function public.tell_refresh_abandoned(
  p_row public.refresh_schedule,
  p_addresses text[]
) returns text[]
language plpgsql
as $$
begin
  if p_row.abandoned = 0 or p_row.last_status is distinct from 'abandoned' or 'abandoned' = any (p_row.told) then
    return '{}';
  end if;
  if public.write_refresh_alert(
    p_addresses => p_addresses,
    p_function_name => p_row.function_name,
    p_kind => 'abandoned',
    p_since => p_row.incident_at,
    p_times => p_row.abandoned,
    p_error => (
      select r.error
      from public.refresh_runs r
      where r.function_name = p_row.function_name
        and r.status = 'abandoned'
      order by r.fence desc
      limit 1
    )
  ) then
    return array['abandoned'];
  end if;
  return '{}';
end
$$;

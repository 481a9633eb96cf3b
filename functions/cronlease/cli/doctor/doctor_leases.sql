-- How many leases have run out and were not cleared, and some of them; of very many not all.
select jsonb_build_object(
  'count', count(*),
  'names', coalesce(
    (array_agg(s.document ->> 'function_name' order by s.document ->> 'locked_until'))[:3],
    '{}'
  )
)
from jsonb_array_elements(
  public.read_refresh_status(p_runs => 0, p_schedules => 1000) -> 'schedules'
) as s (document)
where s.document ->> 'state' = 'stale'

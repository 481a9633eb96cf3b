-- How many schedules have a cadence that cannot be read, and some of them; of very many not all.
select jsonb_build_object(
  'count', count(*),
  'names', coalesce((array_agg(found.function_name order by found.function_name))[:3], '{}')
)
from (
  select s.function_name
  from public.refresh_schedule s
  where s.completed_at is null
    and not public.is_band(s.every)
  limit 1000
) found

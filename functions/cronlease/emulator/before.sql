-- Where the history of the schedules stands; what comes later is judged.
select
  clock_timestamp(),
  coalesce(jsonb_object_agg(s.function_name, s.run_count), '{}')
from public.refresh_schedule s

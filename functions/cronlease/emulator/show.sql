-- name: schedules
select
  function_name as function,
  state,
  last_status,
  run_count as runs,
  failures,
  last_run_at,
  next_run_at
from public.refresh_status
order by function_name <> all(%(functions)s::text[]), function_name
limit 20

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
order by function_name
limit 20

-- name: sources
select
  source,
  count(*) filter (where closed_at is null) as open,
  count(*) filter (where closed_at is not null) as closed,
  count(changed_at) as changed
from public.opening_signals
group by source
order by source

-- name: latest
select
  source,
  external_id,
  title,
  location,
  first_seen_at,
  changed_at,
  closed_at
from public.opening_signals
order by greatest(first_seen_at, changed_at, closed_at) desc, source, external_id
limit 6

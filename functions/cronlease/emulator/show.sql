select
  function_name as function,
  state,
  last_status,
  run_count as runs,
  failures,
  to_char(last_run_at, 'HH24:MI:SS') as last_run,
  to_char(next_run_at, 'HH24:MI:SS') as next_run
from public.refresh_status
order by function_name;

select
  source,
  count(*) filter (where closed_at is null) as open,
  count(*) filter (where closed_at is not null) as closed,
  count(changed_at) as changed
from public.opening_signals
group by source
order by source;

select
  source,
  external_id,
  title,
  location,
  to_char(first_seen_at, 'HH24:MI:SS') as first_seen,
  to_char(changed_at, 'HH24:MI:SS') as changed,
  to_char(closed_at, 'HH24:MI:SS') as closed
from public.opening_signals
order by greatest(first_seen_at, changed_at, closed_at) desc, source, external_id
limit 6;

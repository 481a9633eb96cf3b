select r.status, count(*)
from public.refresh_runs r
where r.started_at >= %(since)s
  and (r.function_name = any(%(functions)s) or r.action = any(%(actions)s))
group by r.status
order by count(*) desc, r.status

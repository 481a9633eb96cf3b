select r.status, count(*)
from public.refresh_runs r
where r.started_at >= %(since)s::timestamptz
  and (r.function_name = any(%(functions)s::text[]) or r.action = any(%(actions)s::text[]))
group by r.status
order by count(*) desc, r.status

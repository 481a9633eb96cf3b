select r.status, count(*)
from public.refresh_runs r
where r.started_at >= %(since)s
group by r.status
order by count(*) desc, r.status

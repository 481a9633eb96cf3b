-- Actions that are not among the known ones, with how many schedules wait for each; of very many only some.
select coalesce(jsonb_object_agg(found.action, found.schedules), '{}')
from (
  select s.action, count(*) as schedules
  from public.refresh_schedule s
  where s.completed_at is null
    and s.action <> all (%(known)s::text[])
  group by s.action
  order by count(*) desc, s.action
  limit 10
) found

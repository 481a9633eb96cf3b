-- name: sources
-- How the sources stand, what fails first; of very many only some.
select coalesce(jsonb_agg(to_jsonb(found)), '[]')
from (
  select
    s.name,
    s.items,
    s.failures,
    s.last_ok_at,
    s.next_fetch_at,
    left(s.last_error, 500) as last_error
  from public.opening_sources s
  order by s.failures desc, s.name
  limit 200
) found

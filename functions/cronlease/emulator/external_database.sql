-- name: known_sources
select s.name
from public.opening_sources s
where s.name <> all(%(samples)s::text[])
order by s.name
limit 3

-- name: sources_of_openings
select distinct o.source
from public.opening_signals o
where o.source <> all(%(samples)s::text[])
order by o.source
limit 3

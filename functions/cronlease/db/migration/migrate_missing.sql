-- The first of these tables that is not there.
select min(name)
from unnest(%(names)s::text[]) as name
where to_regclass(name) is null

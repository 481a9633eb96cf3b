-- name: present
-- Those of the names that a table or view of our schema has, in their order, each with its kind.
select coalesce(jsonb_agg(jsonb_build_array(n.name, c.relkind) order by n.place), '[]')
from unnest(%(names)s::text[]) with ordinality as n (name, place)
join pg_catalog.pg_class c
  on c.relname = n.name
  and c.relnamespace = to_regnamespace('public')
where c.relkind in ('r', 'v')

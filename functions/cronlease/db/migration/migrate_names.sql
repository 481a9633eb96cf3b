-- Which of these names a table, a view or a function of the schema has.
select coalesce(jsonb_agg(name), '[]')
from unnest(%(names)s::text[]) as name
where exists (
  select from pg_catalog.pg_class c where c.relname = name and c.relnamespace = 'public'::regnamespace
)
or exists (
  select from pg_catalog.pg_proc p where p.proname = name and p.pronamespace = 'public'::regnamespace
)

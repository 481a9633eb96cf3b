-- Every function or view of that name as it stands, with the version of its catalog row.
select coalesce(jsonb_agg(version), '[]')
from (
  select p.oid || '/' || p.xmin as version
  from pg_catalog.pg_proc p
  where p.proname = %(name)s
    and p.pronamespace = 'public'::regnamespace
  union all
  select c.oid || '/' || c.xmin
  from pg_catalog.pg_class c
  where c.relname = %(name)s
    and c.relnamespace = 'public'::regnamespace
    and c.relkind = 'v'
) present

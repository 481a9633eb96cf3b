-- Statements that drop those of `among` that nothing has replaced since.
select coalesce(jsonb_agg(statement), '[]')
from (
  select p.oid || '/' || p.xmin as version, format('drop function %%s', p.oid::regprocedure) as statement
  from pg_catalog.pg_proc p
  where p.proname = %(name)s
    and p.pronamespace = 'public'::regnamespace
  union all
  select c.oid || '/' || c.xmin, format('drop view %%s', c.oid::regclass)
  from pg_catalog.pg_class c
  where c.relname = %(name)s
    and c.relnamespace = 'public'::regnamespace
    and c.relkind = 'v'
) present
where version = any (%(among)s)

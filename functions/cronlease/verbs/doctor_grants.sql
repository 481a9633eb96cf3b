-- What the current role lacks of these privileges, on those of the objects that are there.
select coalesce(jsonb_agg(found.lacking order by found.lacking), '[]')
from (
  select 'usage on schema public' as lacking
  where not has_schema_privilege('public', 'usage')
  union all
  select format('%%s on %%s', need.privilege, c.relname)
  from unnest(%(privileges)s::text[], %(names)s::text[]) as need (privilege, name)
  join pg_catalog.pg_class c on c.relname = need.name
  where c.relnamespace = 'public'::regnamespace
    and not has_table_privilege(c.oid, need.privilege)
  union all
  select format('execute on %%s', p.proname)
  from unnest(%(names)s::text[]) as need (name)
  join pg_catalog.pg_proc p on p.proname = need.name
  where p.pronamespace = 'public'::regnamespace
    and not has_function_privilege(p.oid, 'execute')
) found

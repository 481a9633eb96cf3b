-- name: missing_grants
-- Which of these privileges a role lacks on those objects that exist; null if there is no such role.
select
  case
    when exists (select from pg_catalog.pg_roles r where r.rolname = %(role)s::text) then
      coalesce(jsonb_agg(missing.lacking order by missing.lacking), '[]')
  end
from (
  select 'usage on schema public' as lacking
  from pg_catalog.pg_roles r
  where r.rolname = %(role)s::text
    and not has_schema_privilege(r.oid, to_regnamespace('public')::oid, 'usage')
  union all
  select format('%%s on %%s', need.privilege, c.relname)
  from unnest(%(privileges)s::text[], %(names)s::text[]) as need (privilege, name)
  join pg_catalog.pg_class c on c.relname = need.name
  join pg_catalog.pg_roles r on r.rolname = %(role)s::text
  where c.relnamespace = to_regnamespace('public')
    and not has_table_privilege(r.oid, c.oid, need.privilege)
  union all
  select format('execute on %%s', p.proname)
  from unnest(%(names)s::text[]) as need (name)
  join pg_catalog.pg_proc p on p.proname = need.name
  join pg_catalog.pg_roles r on r.rolname = %(role)s::text
  where p.pronamespace = to_regnamespace('public')
    and not has_function_privilege(r.oid, p.oid, 'execute')
) missing

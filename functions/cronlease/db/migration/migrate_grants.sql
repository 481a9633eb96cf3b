-- Statements that give what is granted now again, to whatever bears the name afterwards.
with object as (
  select 'function' as kind, p.proname as name, p.proacl as acl, p.proowner as owner
  from pg_catalog.pg_proc p
  where p.proname = %(name)s
    and p.pronamespace = 'public'::regnamespace
    and p.proacl is not null
  union all
  select 'table', c.relname, c.relacl, c.relowner
  from pg_catalog.pg_class c
  where c.relname = %(name)s
    and c.relnamespace = 'public'::regnamespace
    and c.relkind = 'v'
    and c.relacl is not null
)
select coalesce(jsonb_agg(statement order by place), '[]')
from (
  select 0 as place, format('revoke all on %%s public.%%I from public', o.kind, o.name) as statement
  from object o
  union all
  select
    1,
    format(
      'grant %%s on %%s public.%%I to %%s%%s',
      a.privilege_type,
      o.kind,
      o.name,
      case when a.grantee = 0 then 'public' else a.grantee::regrole::text end,
      case when a.is_grantable then ' with grant option' end
    )
  from object o
  cross join lateral aclexplode(o.acl) a
  where a.grantee <> o.owner
) again

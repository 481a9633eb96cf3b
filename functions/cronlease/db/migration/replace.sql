-- Functions and views: what is there, and who may use it.

-- name: versions
-- Every function or view of that name: the version of its catalog row, and the statement that drops it.
select coalesce(jsonb_object_agg(version, removal), '{}')
from (
  select p.oid || '/' || p.xmin as version, format('drop function %%s', p.oid::regprocedure) as removal
  from pg_catalog.pg_proc p
  where p.proname = %(name)s::text
    and p.pronamespace = 'public'::regnamespace
  union all
  select c.oid || '/' || c.xmin, format('drop view %%s', c.oid::regclass)
  from pg_catalog.pg_class c
  where c.relname = %(name)s::text
    and c.relnamespace = 'public'::regnamespace
    and c.relkind = 'v'
) present

-- name: grants
-- Statements that give what is granted now again, to whatever bears the name afterwards.
with object as (
  select 'function' as kind, p.proname as name, p.proacl as acl, p.proowner as owner
  from pg_catalog.pg_proc p
  where p.proname = %(name)s::text
    and p.pronamespace = 'public'::regnamespace
    and p.proacl is not null
  union all
  select 'table', c.relname, c.relacl, c.relowner
  from pg_catalog.pg_class c
  where c.relname = %(name)s::text
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
      case when a.grantee = 0 then lower('PUBLIC') else a.grantee::regrole::text end,
      case when a.is_grantable then ' with grant option' end
    )
  from object o
  cross join lateral aclexplode(o.acl) a
  where a.grantee <> o.owner
) again

-- name: close
-- Takes these new tables, views and functions from everybody but their owner, and the sequences behind the identities of
-- those tables: default privileges may have given them away the moment they were made.
do $$
declare
  v_statement text;
begin
  for v_statement in
    with made as (
      select c.relacl as acl, c.relowner as owner, 'table' as kind, c.oid::regclass::text as object
      from pg_catalog.pg_class c
      where c.relnamespace = 'public'::regnamespace
        and c.relname = any ({names})
        and c.relkind in ('r', 'v')
      union all
      select p.proacl, p.proowner, 'function', p.oid::regprocedure::text
      from pg_catalog.pg_proc p
      where p.pronamespace = 'public'::regnamespace
        and p.proname = any ({names})
    ),
    given as (
      select m.acl, m.owner, m.kind, m.object
      from made m
      union all
      select s.relacl, s.relowner, 'sequence', s.oid::regclass::text
      from pg_catalog.pg_class t
      join pg_catalog.pg_depend d on d.refobjid = t.oid and d.refclassid = 'pg_class'::regclass and d.deptype = 'i'
      join pg_catalog.pg_class s on s.oid = d.objid and s.relkind = 'S'
      where t.relnamespace = 'public'::regnamespace
        and t.relname = any ({tables})
    )
    select distinct
      format(
        'revoke all on %s %s from %s',
        g.kind,
        g.object,
        case when a.grantee = 0 then lower('PUBLIC') else a.grantee::regrole::text end
      )
    from given g
    cross join lateral aclexplode(g.acl) a
    where a.grantee <> g.owner
  loop
    execute v_statement;
  end loop;
end
$$

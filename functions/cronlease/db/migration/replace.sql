-- Functions and views: what is there, and who may use it.

-- name: versions
-- Every function or view of that name: the version of its catalog row, and what a statement calls it.
select coalesce(jsonb_object_agg(version, object), '{}')
from (
  select p.oid || '/' || p.xmin as version, format('function %%s', p.oid::regprocedure) as object
  from pg_catalog.pg_proc p
  where p.proname = %(name)s::text
    and p.pronamespace = 'public'::regnamespace
  union all
  select c.oid || '/' || c.xmin, format('view %%s', c.oid::regclass)
  from pg_catalog.pg_class c
  where c.relname = %(name)s::text
    and c.relnamespace = 'public'::regnamespace
    and c.relkind = 'v'
) present

-- name: set_aside
-- The functions that were set aside under these names, as a statement calls them, and what time it is.
select jsonb_build_object(
  'now', clock_timestamp(),
  'functions', coalesce(jsonb_agg(p.oid::regprocedure::text), '[]')
)
from pg_catalog.pg_proc p
where p.proname = any (%(names)s::text[])
  and p.pronamespace = to_regnamespace('public')
  and pg_has_role(current_user, p.proowner, 'usage')

-- name: is_called
-- Whether a statement that is older than that may still be under way. What other roles do is hidden from most.
select exists (
  select
  from pg_catalog.pg_stat_activity a
  where a.datname = current_database()
    and a.pid <> pg_backend_pid()
    and coalesce(a.state, 'active') = 'active'
    and coalesce(a.query_start < %(now)s::timestamptz, true)
)

-- name: grants
-- Statements that grant again what is granted now, on whatever has the name afterwards.
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
-- Revokes these new tables, views and functions from everybody but their owner, and the sequences behind the identities
-- of those tables: default privileges may have granted them the moment they were made.
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

-- name: bearers
-- Every function and relation of our schema that has the name of a function or view of ours, and whose it is:
-- ours, the older generation's, or foreign. This is the one place that decides it.
--
-- If our tables are there (the ledger, or the schedule as 0001 grew it), what their owners, a superuser or this role made
-- is ours, except under a name that only a later migration brings along. If they are not, only these are known to be the
-- older generation's: the RPC that answers a boolean, the release beside an older schedule, and a trigger function of
-- tables that are adopted.
with tables as (
  select c.oid, c.relname, c.relowner
  from pg_catalog.pg_class c
  where c.relnamespace = to_regnamespace('public')
    and c.relname = any (%(tables)s::text[])
    and c.relkind = 'r'
),
made as (
  select
    exists (
      select
      from tables t
      join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attname = 'hash'
      where t.relname = 'cronlease_migrations'
    ) as ledger,
    exists (
      select
      from tables t
      join pg_catalog.pg_constraint n on n.conrelid = t.oid and n.conname = 'fence_not_negative'
      where t.relname = 'refresh_schedule'
    ) as grown
),
makers as (
  select t.relowner as role
  from tables t
  union
  select r.oid
  from pg_catalog.pg_roles r
  where r.rolsuper
    or r.rolname = current_user
),
objects as (
  select
    p.proname::text as name,
    case p.prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end as kind,
    p.oid::regprocedure::text as object,
    p.proowner as owner,
    p.prokind in ('f', 'w') as is_of_our_kind,
    case p.proname
      when 'acquire_refresh_lock' then p.prorettype = 'boolean'::regtype
      when 'release_refresh_lock' then exists (select from tables t where t.relname = 'refresh_schedule')
      else p.prorettype = 'trigger'::regtype and not exists (
        select
        from pg_catalog.pg_trigger g
        where g.tgfoid = p.oid
          and g.tgrelid not in (select t.oid from tables t)
      )
    end as is_older,
    coalesce(p.proargnames[:p.pronargs], '{}') as arguments,
    array(
      select case when a.grantee = 0 then lower('PUBLIC') else a.grantee::regrole::text end
      from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
      where a.grantee <> p.proowner
      order by 1
    ) as users,
    array(
      select distinct v.oid::regclass::text
      from pg_catalog.pg_depend d
      join pg_catalog.pg_rewrite w on w.oid = d.objid
      join pg_catalog.pg_class v on v.oid = w.ev_class
      where d.classid = 'pg_rewrite'::regclass
        and d.refclassid = 'pg_proc'::regclass
        and d.refobjid = p.oid
      order by 1
    ) as used_by
  from pg_catalog.pg_proc p
  where p.pronamespace = to_regnamespace('public')
    and p.proname = any (%(functions)s::text[])
  union all
  select
    c.relname,
    case c.relkind
      when 'v' then 'view'
      when 'm' then 'materialized view'
      when 'f' then 'foreign table'
      when 'S' then 'sequence'
      when 'c' then 'type'
      when 'i' then 'index'
      when 'I' then 'index'
      else 'table'
    end,
    c.oid::regclass::text,
    c.relowner,
    c.relkind = 'v',
    false,
    '{}',
    '{}',
    '{}'
  from pg_catalog.pg_class c
  where c.relnamespace = to_regnamespace('public')
    and c.relname = any (%(views)s::text[])
)
select coalesce(
  jsonb_agg(
    jsonb_build_object(
      'name', o.name,
      'kind', o.kind,
      'object', o.object,
      'owner', o.owner::regrole::text,
      'arguments', o.arguments,
      'users', o.users,
      'used_by', o.used_by,
      'whose', case
        when not o.is_of_our_kind then 'foreign'
        when m.ledger and o.name = any (%(to_come)s::text[]) then case when o.is_older then 'older' else 'foreign' end
        when (m.ledger or m.grown) and o.owner in (select k.role from makers k) then 'ours'
        when not (m.ledger or m.grown) and o.is_older then 'older'
        else 'foreign'
      end
    )
    order by o.name, o.object
  ),
  '[]'
)
from objects o
cross join made m

-- name: of_others
-- The tables and functions of these names that this role may not change, with their owners.
select coalesce(
  jsonb_agg(
    jsonb_build_object(
      'kind', o.kind,
      'object', o.object,
      'owner', o.owner::regrole::text,
      'migrator', current_user::regrole::text
    )
    order by o.object
  ),
  '[]'
)
from (
  select 'table' as kind, c.relname::text as object, c.relowner as owner
  from pg_catalog.pg_class c
  where c.relnamespace = to_regnamespace('public')
    and c.relname = any (%(tables)s::text[])
    and c.relkind = 'r'
  union all
  select 'function', p.oid::regprocedure::text, p.proowner
  from pg_catalog.pg_proc p
  where p.pronamespace = to_regnamespace('public')
    and p.proname = any (%(functions)s::text[])
) o
where not pg_has_role(current_user, o.owner, 'usage')

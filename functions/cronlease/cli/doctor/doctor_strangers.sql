-- Who else may use things of ours: neither their owner, nor one of our roles, nor whoever asks. By default: everybody,
-- or a role that default privileges of this schema give things to.
with things as (
  select 'table' as kind, c.relname::text as name, c.relowner as owner, c.relacl as acl
  from pg_catalog.pg_class c
  where c.relnamespace = 'public'::regnamespace
    and c.relname = any (%(names)s::text[])
    and c.relkind in ('r', 'v')
  union all
  select 'function', p.proname, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
  from pg_catalog.pg_proc p
  where p.pronamespace = 'public'::regnamespace
    and p.proname = any (%(names)s::text[])
),
given as (
  select
    a.grantee,
    coalesce(array_agg(distinct t.name order by t.name) filter (where t.kind = 'table'), '{}') as tables,
    coalesce(array_agg(distinct t.name order by t.name) filter (where t.kind = 'function'), '{}') as functions
  from things t
  cross join lateral aclexplode(t.acl) a
  where a.grantee not in (t.owner, current_user::regrole)
  group by a.grantee
)
select coalesce(
  jsonb_agg(
    jsonb_build_object(
      'role', case when g.grantee = 0 then 'public' else quote_ident(r.rolname) end,
      'tables', g.tables,
      'functions', g.functions,
      'by_default', g.grantee = 0 or exists (
        select
        from pg_catalog.pg_default_acl d
        cross join lateral aclexplode(d.defaclacl) a
        where a.grantee = g.grantee
          and d.defaclnamespace in (0, 'public'::regnamespace)
      )
    )
    order by r.rolname
  ),
  '[]'
)
from given g
left join pg_catalog.pg_roles r on r.oid = g.grantee
where r.rolname is null
  or r.rolname not in ('cronlease_runner', 'cronlease_reader')

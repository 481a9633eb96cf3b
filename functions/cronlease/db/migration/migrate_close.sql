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
        case when a.grantee = 0 then 'public' else a.grantee::regrole::text end
      )
    from given g
    cross join lateral aclexplode(g.acl) a
    where a.grantee <> g.owner
  loop
    execute v_statement;
  end loop;
end
$$

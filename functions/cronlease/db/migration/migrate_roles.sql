-- Whether roles.sql was applied to this database. The roles alone do not say so: all databases of a server share them.
select exists (
  select
  from pg_catalog.pg_proc p
  cross join lateral aclexplode(p.proacl) a
  join pg_catalog.pg_roles r
    on r.oid = a.grantee
  where p.proname = 'acquire_refresh_lock'
    and p.pronamespace = 'public'::regnamespace
    and r.rolname = 'cronlease_runner'
)

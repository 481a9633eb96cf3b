-- What migrate asks about a database as a whole.

-- name: state
-- absent: nothing of ours is here. adoptable: tables or a function of an older generation, which migrate takes over.
-- complete: the ledger and the function every hit calls. partial: anything between, for a person to look at. Null: no
-- schema that could hold any of it.
select case
  when to_regnamespace('public') is null then null
  when ledger and claims then 'complete'
  when ledger or runs or grown then 'partial'
  when claims or older then 'adoptable'
  else 'absent'
end
from (
  select
    to_regclass('public.cronlease_migrations') is not null as ledger,
    to_regclass('public.refresh_runs') is not null as runs,
    exists (
      select
      from unnest(%(adopted)s::text[]) as name
      where to_regclass('public.' || name) is not null
    ) as older,
    exists (
      select
      from pg_catalog.pg_proc
      where proname = 'acquire_refresh_lock'
        and pronamespace = to_regnamespace('public')
    ) as claims,
    exists (
      select
      from pg_catalog.pg_constraint
      where conrelid = to_regclass('public.refresh_schedule')
        and conname = 'fence_not_negative'
    ) as grown
) found

-- name: has_schema
select to_regnamespace('public') is not null

-- name: has_roles
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

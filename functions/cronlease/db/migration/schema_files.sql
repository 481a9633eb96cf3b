-- The ledger of applied migrations, and which names are taken.

-- name: applied
-- Name -> hash of what was applied.
select coalesce(jsonb_object_agg(name, hash), '{}')
from public.cronlease_migrations

-- name: newer
-- Migrations of these packages that are not known. Version 0.1 knew no packages: its rows count as cronlease's.
select coalesce(jsonb_agg(m.name order by m.name), '[]')
from public.cronlease_migrations m
where m.name <> all (%(known)s::text[])
  and coalesce(to_jsonb(m) ->> 'package', 'cronlease') = any (%(packages)s::text[])

-- name: ledger_is_ours
-- Whether a table of that name has what a ledger of ours has.
select count(*) = 2
from pg_catalog.pg_attribute
where attrelid = to_regclass('public.cronlease_migrations')
  and attname in ('name', 'hash')
  and not attisdropped

-- name: ledger_is_readable
select has_table_privilege('public.cronlease_migrations', 'select')

-- name: record
insert into public.cronlease_migrations (name, hash)
values (%(name)s::text, %(hash)s::text)
returning name

-- name: label
-- Version 0.1 knows nothing of packages, and may have written rows meanwhile.
update public.cronlease_migrations m
set package = l.package
from (values {pairs}) as l (name, package)
where m.name = l.name
  and m.package <> l.package

-- name: missing_table
-- The first of these tables that is not there.
select min(name)
from unnest(%(names)s::text[]) as name
where to_regclass(name) is null

-- name: taken_names
-- Which of these names a table, a view or a function of the schema has.
select coalesce(jsonb_agg(name), '[]')
from unnest(%(names)s::text[]) as name
where exists (
  select from pg_catalog.pg_class c where c.relname = name and c.relnamespace = to_regnamespace('public')
)
or exists (
  select from pg_catalog.pg_proc p where p.proname = name and p.pronamespace = to_regnamespace('public')
)

-- What a person should know of the database, beside its schema.

-- name: notes
-- What a person should know of the database: its encoding, and whether everybody may create in the schema.
select jsonb_build_object(
  'encoding', current_setting('server_encoding'),
  'open', has_schema_privilege(lower('PUBLIC'), 'public', 'create')
)

-- name: elsewhere
-- Schemas of the search path, other than ours, that have a table of the older generation. A table with a ledger beside it
-- belongs to another deployment.
select coalesce(jsonb_agg(distinct n.nspname), '[]')
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relname = 'refresh_schedule'
  and c.relkind in ('r', 'p', 'v')
  and n.nspname = any (current_schemas(false))
  and n.nspname <> 'public'
  and not exists (
    select
    from pg_catalog.pg_class l
    where l.relnamespace = n.oid
      and l.relname = 'cronlease_migrations'
  )

-- What a person should know of the database: its encoding, whether everybody may create in the schema, and whether an
-- older acquire_refresh_lock answers a boolean.
select jsonb_build_object(
  'encoding', current_setting('server_encoding'),
  'open', has_schema_privilege('public', 'public', 'create'),
  'answers_a_boolean', exists (
    select
    from pg_catalog.pg_proc p
    where p.proname = 'acquire_refresh_lock'
      and p.pronamespace = 'public'::regnamespace
      and p.prorettype = 'boolean'::regtype
  )
)

-- Who answers, as whom, and what time it is there.
select jsonb_build_object(
  'now', extract(epoch from clock_timestamp()),
  'version', current_setting('server_version'),
  'database', current_database(),
  'role', current_user,
  'read_only', current_setting('transaction_read_only')::boolean,
  'pid', pg_backend_pid(),
  'may_create', exists (
    select
    from pg_catalog.pg_namespace n
    where n.nspname = 'public'
      and has_schema_privilege(n.oid, 'create')
  ),
  'encoding', current_setting('server_encoding'),
  'open_schema', has_schema_privilege('public', 'public', 'create')
)

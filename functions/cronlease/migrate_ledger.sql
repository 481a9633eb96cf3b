-- Name -> hash of what was applied; empty where the ledger itself is missing.
select case
  when to_regclass('public.cronlease_migrations') is null then '{}'
  else (
    select coalesce(jsonb_object_agg(name, hash), '{}')
    from public.cronlease_migrations
  )
end

-- absent: nothing of ours is here, at most an older refresh_schedule without our columns.
-- complete: the ledger and the function every hit calls. partial: anything between, for a person to look at.
select case
  when ledger and claims then 'complete'
  when ledger or claims or runs or grown then 'partial'
  else 'absent'
end
from (
  select
    to_regclass('public.cronlease_migrations') is not null as ledger,
    to_regclass('public.refresh_runs') is not null as runs,
    exists (
      select
      from pg_catalog.pg_proc
      where proname = 'acquire_refresh_lock'
        and pronamespace = 'public'::regnamespace
    ) as claims,
    exists (
      select
      from pg_catalog.pg_attribute
      where attrelid = to_regclass('public.refresh_schedule')
        and attname = 'fence'
        and not attisdropped
    ) as grown
) found

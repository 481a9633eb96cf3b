-- absent: nothing of ours is here. adoptable: tables or a function of an older generation, which migrate takes over.
-- complete: the ledger and the function every hit calls. partial: anything between, for a person to look at.
select case
  when ledger and claims then 'complete'
  when ledger or runs or grown then 'partial'
  when claims or older then 'adoptable'
  else 'absent'
end
from (
  select
    to_regclass('public.cronlease_migrations') is not null as ledger,
    to_regclass('public.refresh_runs') is not null as runs,
    coalesce(to_regclass('public.refresh_schedule'), to_regclass('public.opening_signals')) is not null as older,
    exists (
      select
      from pg_catalog.pg_proc
      where proname = 'acquire_refresh_lock'
        and pronamespace = 'public'::regnamespace
    ) as claims,
    exists (
      select
      from pg_catalog.pg_constraint
      where conrelid = to_regclass('public.refresh_schedule')
        and conname = 'fence_not_negative'
    ) as grown
) found

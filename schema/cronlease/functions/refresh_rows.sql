-- The schedules as a hit reads them. A view reads with the rights of its owner: whoever may ask for a lease needs
-- no right to the table.
create or replace view public.refresh_rows as
select
  s.function_name,
  s.locked_by,
  s.locked_until,
  s.next_run_at,
  s as schedule
from public.refresh_schedule s;

-- Prepared transactions that have a schedule row locked: no backend has them, and only their owner or a superuser ends
-- them. A job can leave one behind on its raw connection.
create or replace view public.refresh_prepared as
select
  s.function_name,
  p.gid,
  p.owner,
  p.prepared
from pg_catalog.pg_prepared_xacts p
join public.refresh_schedule s on s.xmax = p.transaction
where p.database = pg_catalog.current_database();

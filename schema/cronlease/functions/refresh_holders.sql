-- The backends that have a schedule row locked in a fenced transaction. Two marks prove it: the backend holds the
-- advisory lock of assert_lease, which anybody could take, and its transaction is the one that locked the row.
create or replace view public.refresh_holders as
select
  s.function_name,
  s.locked_by,
  s.locked_until,
  marked.pid,
  r.overdue_at
from pg_catalog.pg_locks marked
join public.refresh_schedule s on s.id = marked.objid::bigint
join pg_catalog.pg_locks writing
  on writing.pid = marked.pid
  and writing.locktype = 'transactionid'
  and writing.granted
  and writing.transactionid = s.xmax
left join public.refresh_runs r
  on r.function_name = s.function_name
  and r.fence = s.fence
  and r.status = 'running'
where marked.locktype = 'advisory'
  and marked.database = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
  and marked.classid = public.refresh_lock_key('write')::oid
  and marked.objsubid = 2
  and marked.granted;

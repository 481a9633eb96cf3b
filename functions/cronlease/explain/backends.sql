-- name: blocking_backends
-- The backends that block one schedule or any: those whose fenced transaction keeps the row locked after its lease, and
-- those that hold the advisory lock of a claim for longer than a claim takes. Also prepared transactions that keep the
-- row locked, which belong to no backend.
select coalesce(jsonb_agg(to_jsonb(blocking) order by blocking.function_name, blocking.pid), '[]')
from (
  select
    b.function_name,
    b.holds,
    b.overdue_at,
    b.pid,
    a.usename as role,
    coalesce(a.application_name, '') as application,
    a.wait_event in ('ClientRead', 'ClientWrite') as waits_for_client,
    a.state_change as since,
    clock_timestamp() as now,
    (
      pg_has_role(a.usesysid, 'usage')
      or (pg_has_role('pg_signal_backend', 'usage') and not r.rolsuper)
    ) is true as may_end,
    null as gid
  from (
    select h.function_name, h.pid, 'row' as holds, h.overdue_at
    from public.refresh_holders h
    where h.locked_until <= clock_timestamp()
    union all
    select s.function_name, l.pid, 'claim', null
    from pg_catalog.pg_locks l
    join public.refresh_rows s on (s.schedule).id = l.objid::bigint
    where l.locktype = 'advisory'
      and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
      and l.classid = public.refresh_lock_key('claim')::oid
      and l.objsubid = 2
      and l.granted
  ) b
  left join pg_catalog.pg_stat_activity a on a.pid = b.pid
  left join pg_catalog.pg_roles r on r.oid = a.usesysid
  where (%(name)s::text is null or b.function_name = %(name)s::text)
    -- A session outside a transaction is not claiming: it holds a session-level lock.
    and (b.holds = 'row' or coalesce(a.xact_start, '-infinity') < clock_timestamp() - interval '2 s')
  union all
  select p.function_name, 'prepared', null, 0, p.owner, '', null, p.prepared, clock_timestamp(), false, p.gid
  from public.refresh_prepared p
  where %(name)s::text is null or p.function_name = %(name)s::text
  limit 100
) blocking

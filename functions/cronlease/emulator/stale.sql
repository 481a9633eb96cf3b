-- Leases that have run out and whose rows are due: the next hit takes them.
select s.function_name
from public.refresh_schedule s
where s.locked_until < clock_timestamp()
  and (s.next_run_at is null or s.next_run_at < clock_timestamp())
  and s.paused_at is null
  and s.completed_at is null
  and (s.function_name = any(%(functions)s::text[]) or s.action = any(%(actions)s::text[]))
  and exists (
    select
    from public.refresh_runs r
    where r.function_name = s.function_name
      and r.fence = s.fence
      and r.started_at >= %(since)s::timestamptz
  )
order by s.function_name

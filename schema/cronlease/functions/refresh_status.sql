-- What each schedule is doing now. The state is derived here and stored nowhere, so nothing can be stuck in it.
create or replace view public.refresh_status as
select
  s.function_name,
  case
    when s.completed_at is not null then 'completed'
    when s.locked_until > moment.at then 'dispatching'
    -- Nobody takes over: it waits for a person.
    when s.paused_at is not null then 'paused'
    when s.locked_until is not null then 'stale'
    when s.breaker_until is not null then 'breaker_open'
    when s.late_at <= moment.at and coalesce(s.next_run_at <= moment.at, true) then 'late'
    else 'pending'
  end as state,
  s.completed_at is null
    and s.paused_at is null
    and coalesce(s.next_run_at <= moment.at, true)
    and coalesce(s.breaker_until <= moment.at, true)
    -- Its trigger decides when it runs, or it must be planned first.
    and public.refresh_cadence(s) is distinct from 'hit'
    and not public.refresh_is_spent(s, null, null, null, moment.at)
    and coalesce(s.locked_until <= moment.at, true) as due,
  s.next_run_at,
  s.last_run_at,
  s.last_status,
  s.last_error,
  s.run_count,
  s.failures,
  s.abandoned,
  s.locked_by,
  s.locked_until,
  s.fence,
  s.action,
  s.every,
  s.once,
  s.completed_at,
  s.paused_at,
  s.paused_reason,
  s.cron,
  s.time_zone,
  s.missed,
  s.late,
  s.attempts,
  s.attempt,
  s.slot_at,
  s.last_slot_at,
  s.last_success_slot_at,
  s.planned_from,
  s.planned_at,
  s.planned_before,
  s.late_at,
  s.late_alert,
  s.pause_after,
  s.probe,
  s.breaker_until,
  s.incident_at
from public.refresh_schedule s
cross join (select clock_timestamp() as at) moment;

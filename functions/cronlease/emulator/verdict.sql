-- name: make_due
-- As if their time had come; what somebody holds, or is taking right now, is left alone, and so is a slot, which is a
-- time of the calendar.
with free as (
  select s.id
  from public.refresh_schedule s
  where s.function_name = any(%(functions)s::text[])
    and (s.locked_until is null or s.locked_until < clock_timestamp())
    and s.next_run_at is not null
    and s.slot_at is null
  for no key update skip locked
)
update public.refresh_schedule s
set next_run_at = least(s.next_run_at, clock_timestamp())
from free
where s.id = free.id
returning s.function_name

-- name: before
-- Where the history of the schedules stands; what comes later is judged.
select
  clock_timestamp(),
  coalesce(jsonb_object_agg(s.function_name, s.run_count), '{}')
from public.refresh_schedule s

-- name: history
select r.status, count(*)
from public.refresh_runs r
where r.started_at >= %(since)s::timestamptz
  and (r.function_name = any(%(functions)s::text[]) or r.action = any(%(actions)s::text[]))
group by r.status
order by count(*) desc, r.status

-- name: unheard
-- Runs of which no caller of the emulator was told, by what hit them; ours are those of the emulator's own hits.
select
  coalesce(r.job_name like 'projects/local/locations/emulator/jobs/%%', false)
    or (r.trigger = 'run_due' and r.action = any (%(actions)s::text[])) as ours,
  r.trigger,
  count(*)
from public.refresh_runs r
where r.started_at >= %(since)s::timestamptz
  and (r.function_name = any (%(functions)s::text[]) or r.action = any (%(actions)s::text[]))
  and not %(told)s::jsonb ? r.request_id::text
group by 1, 2
order by 1, 2

-- name: stale
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

-- name: violations
-- Whatever is wrong with the history since then, a row each: the rule that was broken, and by what.
-- Told is what callers heard, by request ID; run_counts are the schedules' at the beginning. Only functions
-- and actions that the hits could run are judged.
with run as (
  select
    r.*,
    r.status in ('success', 'partial') as committed,
    lag(r.started_at) over history as started_before,
    lead(r.started_at) over history as replaced_at,
    max(r.finished_at) filter (where r.status in ('success', 'partial')) over (
      partition by r.function_name
      order by r.fence
      rows between unbounded preceding and 1 preceding
    ) as committed_before
  from public.refresh_runs r
  where r.started_at >= %(since)s::timestamptz
    and (r.function_name = any(%(functions)s::text[]) or r.action = any(%(actions)s::text[]))
  window history as (partition by r.function_name order by r.fence)
),
schedule as (
  select s.*
  from public.refresh_schedule s
  where s.function_name = any(%(functions)s::text[]) or s.action = any(%(actions)s::text[])
),
told as (
  select t.key::uuid as request_id, t.value as word
  from jsonb_each_text(%(told)s::jsonb) t
),
finished as (
  select r.function_name, count(*) as runs
  from public.refresh_runs r
  where r.finished_at >= %(since)s::timestamptz
    and r.status in ('success', 'partial', 'failed', 'interrupted')
  group by r.function_name
),
newest as (
  select function_name, max(fence) as fence
  from run
  group by function_name
)
select 'two runs have the same fence', format('%%s, fence %%s', function_name, fence)
from run
group by function_name, fence
having count(*) > 1
union all
select 'fences do not grow with time', format('%%s, fence %%s', function_name, fence)
from run
where started_before > started_at
union all
select 'two committed runs overlap', format('%%s, fence %%s, %%s', function_name, fence, request_id)
from run
where committed
  and committed_before > started_at
union all
select 'a run ended what another had taken over', format('%%s, fence %%s, %%s', function_name, fence, request_id)
from run
where status in ('success', 'partial', 'failed', 'interrupted')
  and finished_at > replaced_at
union all
select 'a run that was replaced is still open', format('%%s, fence %%s, %%s', function_name, fence, request_id)
from run
where status = 'running'
  and replaced_at is not null
union all
select
  'a caller was told of a success that is not there',
  format('%%s, recorded as %%s', t.request_id, coalesce(r.status, 'nothing'))
from told t
left join public.refresh_runs r on r.request_id = t.request_id
where t.word in ('success', 'partial')
  and r.status is distinct from t.word
union all
select
  'a caller was told that a run came to nothing, and it is there',
  format('%%s, told %%s, recorded as %%s', t.request_id, t.word, r.status)
from told t
join run r on r.request_id = t.request_id
where t.word in ('failed', 'deadline', 'lease_lost', 'interrupted')
  and r.committed
union all
select
  'a run has not moved the schedule once',
  format('%%s, %%s runs ended, run_count grew by %%s', s.function_name, coalesce(f.runs, 0), grown.by)
from schedule s
left join finished f on f.function_name = s.function_name
cross join lateral (
  select s.run_count - coalesce((%(run_counts)s::jsonb ->> s.function_name)::bigint, 0) as by
) grown
where grown.by <> coalesce(f.runs, 0)
union all
select
  'a success has not set the next run time',
  format('%%s, fence %%s, %%s', r.function_name, r.fence, coalesce(r.next_run_at::text, 'null'))
from run r
join schedule s on s.function_name = r.function_name
where r.committed
  and not s.once
  -- The slot after the one that was served may have come by then, and a trigger that owns the schedule needs no time.
  and r.slot is null
  and s.slot_at is null
  and s.planned_from is distinct from 'hit'
  and (r.next_run_at is null or r.next_run_at < r.finished_at)
union all
select 'a slot has more than one success', format('%%s, %%s', function_name, slot)
from run
where committed
  and slot is not null
group by function_name, slot
having count(*) > 1
union all
select 'a delivery has more than one success', format('%%s, %%s', r.function_name, r.delivery)
from run r
join schedule s on s.function_name = r.function_name
where r.committed
  and r.delivery is not null
  and s.planned_from = 'hit'
group by r.function_name, r.delivery
having count(*) > 1
union all
select
  'the schedule has another fence than its newest run',
  format('%%s, %%s instead of %%s', s.function_name, s.fence, n.fence)
from schedule s
join newest n on n.function_name = s.function_name
where s.fence <> n.fence
union all
select 'a lease is held by no open run', format('%%s, %%s', s.function_name, s.locked_by)
from schedule s
where s.locked_by is not null
  and not exists (
    select
    from public.refresh_runs r
    where r.request_id::text = s.locked_by
      and r.fence = s.fence
      and r.status = 'running'
  )

-- name: slots
-- The runs since then that served a slot, in order, with the cadence that is in force now.
select
  r.function_name,
  r.slot,
  coalesce(r.missed, 0),
  r.status in ('success', 'partial'),
  s.planned_from
from public.refresh_runs r
join public.refresh_schedule s on s.function_name = r.function_name
where r.started_at >= %(since)s::timestamptz
  and (r.function_name = any (%(functions)s::text[]) or r.action = any (%(actions)s::text[]))
  and r.slot is not null
  -- What was planned from another cadence has other slots.
  and r.started_at >= s.planned_at - interval '1 minute'
  and s.planned_from <> 'hit'
order by r.function_name, r.fence

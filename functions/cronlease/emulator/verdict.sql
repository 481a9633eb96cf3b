-- name: make_due
-- Makes schedules due, and forgets which cadence their plan replaced. Leaves alone a row that somebody holds or is
-- claiming right now, and a slot, which is a time of the calendar.
with free as (
  select s.id
  from public.refresh_schedule s
  where s.function_name = any(%(functions)s::text[])
    and (s.locked_until is null or s.locked_until < clock_timestamp())
  for no key update skip locked
)
update public.refresh_schedule s
set next_run_at = case
      when s.slot_at is null and s.next_run_at > clock_timestamp() then clock_timestamp()
      else s.next_run_at
    end,
    planned_before = null
from free
where s.id = free.id
returning s.function_name

-- name: before
-- Where the history stands now; the verdict is about what comes later.
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
-- Runs that no answer to the emulator mentioned, by trigger; `ours` are those of the emulator's own hits.
select
  coalesce(r.job_name like 'projects/local/locations/emulator/jobs/%%', false)
    or (r.trigger = 'run_due' and r.action = any (%(actions)s::text[])) as ours,
  r.trigger,
  count(*)
from public.refresh_runs r
where r.started_at >= %(since)s::timestamptz
  and (r.function_name = any (%(functions)s::text[]) or r.action = any (%(actions)s::text[]))
  and not %(answers)s::jsonb ? r.request_id::text
group by 1, 2
order by 1, 2

-- name: stale
-- Due rows whose lease has expired: the next hit takes them over.
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
-- One row per violation since then: the broken rule, and what broke it. `answers` are what callers were told, by
-- request ID; `run_counts` are those of the schedules at the beginning. Covers only functions and actions that the
-- hits could run.
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
answer as (
  select a.key::uuid as request_id, a.value as outcome
  from jsonb_each_text(%(answers)s::jsonb) a
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
select 'a run finished after another had taken over', format('%%s, fence %%s, %%s', function_name, fence, request_id)
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
  'a caller was told of a success that was not recorded',
  format('%%s, recorded as %%s', a.request_id, coalesce(r.status, 'nothing'))
from answer a
left join public.refresh_runs r on r.request_id = a.request_id
where a.outcome in ('success', 'partial')
  and r.status is distinct from a.outcome
union all
select
  'a caller was told that a run did not succeed, but it did',
  format('%%s, told %%s, recorded as %%s', a.request_id, a.outcome, r.status)
from answer a
join run r on r.request_id = a.request_id
where a.outcome in ('failed', 'deadline', 'lease_lost', 'interrupted')
  and r.committed
union all
select
  'a run did not advance the schedule exactly once',
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
  -- The next slot may have passed by then, and a schedule that its trigger owns has no next run time.
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
  'the schedule does not have the fence of its newest run',
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
-- The runs since then that served a slot, in order, with the current cadence.
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
  -- Runs that were planned from an earlier cadence have other slots.
  and r.started_at >= s.planned_at - interval '1 minute'
  and s.planned_from <> 'hit'
order by r.function_name, r.fence

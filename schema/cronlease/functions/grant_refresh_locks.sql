-- Writes the claims of these rows: lease, fence and history, each row for its own request. The caller has them locked
-- and has decided, at that moment, that they may run; nobody else calls it.
create or replace function public.grant_refresh_locks(
  p_ids integer[],
  p_request_ids uuid[],
  p_leases interval[],
  p_backoffs interval[],
  p_at timestamptz,
  p_force boolean,
  p_trigger text,
  p_parent_request_id uuid,
  p_max_run interval,
  p_job_name text default null,
  p_schedule_time text default null,
  p_args jsonb default null,
  p_delivery text default null,
  out request_id uuid,
  out args jsonb,
  out schedule public.refresh_schedule
)
returns setof record
language plpgsql
as $$
#variable_conflict use_column
declare
  v_orphan record;
  v_orphans integer[];
begin
  -- At most one run of a function is open, and it is the newest. Each row's own history is searched for it, and each run
  -- is closed by itself: with old or missing statistics, the planner must not read all of the history.
  for v_orphan in
    select asked.id, newest.request_id
    from unnest(p_ids) as asked (id)
    cross join lateral (
      select s.function_name, s.fence
      from public.refresh_schedule s
      where s.id = asked.id
      offset 0
    ) held
    cross join lateral (
      select o.request_id
      from public.refresh_runs o
      where o.function_name = held.function_name
        and o.fence >= held.fence
        and o.status = 'running'
      offset 0
    ) newest
  loop
    update public.refresh_runs r
    set status = 'abandoned',
        finished_at = p_at,
        error = 'the run never finished: its process died or lost its lease'
    where r.request_id = v_orphan.request_id;
    v_orphans := v_orphans || v_orphan.id;
  end loop;

  return query
  with taken as (
    update public.refresh_schedule s
    set locked_by = a.request_id::text,
        locked_until = p_at + a.lease,
        fence = s.fence + 1,
        abandoned = s.abandoned + a.orphans,
        -- A run that was forced, or whose row was made due by its time alone while its slot is still to come, leaves
        -- the slot and its count of attempts as they are.
        attempt = case
          when p_force or coalesce(s.slot_at > p_at + public.refresh_early(s.planned_from), false) then s.attempt
          else s.attempt + 1
        end,
        last_status = case when a.orphans > 0 then 'abandoned' else s.last_status end,
        incident_at = coalesce(s.incident_at, case when a.orphans > 0 then p_at end),
        -- From the third run in a row that never finished, starting costs a backoff in advance:
        -- a run that kills its process must not be started again at every hit.
        next_run_at = case when s.abandoned + a.orphans >= 3 then p_at + a.backoff else s.next_run_at end
    from (
      select
        asked.id,
        asked.request_id,
        asked.lease,
        -- Null has to stay null, and least() would ignore it.
        case when asked.backoff > interval '400 days' then interval '400 days' else asked.backoff end as backoff,
        coalesce(cardinality(array_positions(v_orphans, asked.id)), 0) as orphans
      from unnest(p_ids, p_request_ids, p_leases, p_backoffs) as asked (id, request_id, lease, backoff)
    ) a
    where s.id = a.id
    returning
      s as schedule,
      a.request_id,
      a.lease,
      p_force or coalesce(s.slot_at > p_at + public.refresh_early(s.planned_from), false) as is_by_hand
  ),
  begun as (
    insert into public.refresh_runs (
      request_id, function_name, action, args, fence,
      trigger, job_name, schedule_time, parent_request_id, started_at, overdue_at, delivery, slot, attempt
    )
    select
      t.request_id,
      (t.schedule).function_name,
      (t.schedule).action,
      (t.schedule).args || coalesce(p_args, '{}'),
      (t.schedule).fence,
      p_trigger,
      p_job_name,
      p_schedule_time,
      p_parent_request_id,
      p_at,
      p_at + p_max_run + t.lease,
      p_delivery,
      -- A slot that has had its success is not served again: version 0.1 leaves it behind.
      case
        when not t.is_by_hand and (t.schedule).slot_at is distinct from (t.schedule).last_success_slot_at
          then (t.schedule).slot_at
      end,
      case when not t.is_by_hand then (t.schedule).attempt end
    from taken t
  )
  select t.request_id, (t.schedule).args || coalesce(p_args, '{}'), t.schedule
  from taken t;
end
$$;

-- Claims the oldest due row of these actions for one run, or says when there will be one. The rows are found by
-- plain reads; each race is decided by take_refresh_lock, and a row that somebody else is claiming is passed, as is
-- one whose args nobody could read. A row whose trigger owns its schedule is left alone, whatever the caller's cadence
-- is by now, and so is one that must be planned before it may run. No row is claimed before its time.
-- Null actions are all there are. The same request asking again gets the row that it holds. For claim_due_refresh.
create or replace function public.take_due_refresh(
  p_request_id uuid,
  p_lease interval,
  p_actions text[],
  p_leases interval[],
  p_backoff interval,
  p_backoffs interval[],
  p_trigger text,
  p_parent_request_id uuid,
  p_max_run interval,
  p_cadences text[] default null,
  p_most_attempts integer[] default null,
  p_lates interval[] default null,
  out acquired boolean,
  out reason text,
  out fence bigint,
  out locked_by text,
  out locked_until timestamptz,
  out next_run_at timestamptz,
  out action text,
  out args jsonb,
  out every text,
  out failures integer,
  out function_name text,
  out due_in interval,
  out overdue_name text,
  out overdue_holder text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- Every row is found at one end of an index. Where statistics are old or none, the planner must not read or sort
-- the table instead; and what it then reckons must not make it compile the query.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
-- One plan serves every call: making one costs more than the claim.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_actions text[] := p_actions;
  v_after timestamptz[];
  v_after_id integer[];
  v_next record;
  v_holds boolean;
  v_tried integer := 0;
  v_unreadable integer := 0;
  v_overdue boolean;
begin
  acquired := false;
  select r.function_name, r.action, s.locked_by = p_request_id::text as holds into v_next
  from public.refresh_runs r
  left join public.refresh_schedule s on s.function_name = r.function_name
  where r.request_id = p_request_id;
  v_holds := found;
  if v_holds and v_next.holds is not true then
    -- This request has had its run, and a request is one run: ask with another.
    reason := 'locked';
    due_in := '0';
    return;
  end if;

  if v_actions is null then
    -- The actions of the oldest rows: the oldest of all is among theirs.
    v_actions := array(
      select distinct oldest.action
      from (
        select s.action
        from public.refresh_schedule s
        where s.completed_at is null
          and s.paused_at is null
          and (s.locked_until is null or s.locked_until <= v_now)
          and (s.every is null or public.is_band(s.every))
        order by s.next_run_at nulls first
        limit 100
      ) oldest
    );
  end if;
  v_after := array_fill('-infinity'::timestamptz, array[cardinality(v_actions)]);
  v_after_id := array_fill(0, array[cardinality(v_actions)]);

  loop
    if not v_holds then
      select due.function_name, due.action, due.id, due.at, wanted.place into v_next
      from unnest(v_actions, v_after, v_after_id, p_cadences, p_most_attempts, p_lates)
        with ordinality as wanted (action, after, after_id, cadence, attempts, late, place)
      cross join lateral (
        select s.function_name, s.action, s.id, coalesce(s.next_run_at, '-infinity') as at
        from public.refresh_schedule s
        where s.completed_at is null
          and s.paused_at is null
          and s.action = wanted.action
          and (coalesce(s.next_run_at, '-infinity'), s.id) > (wanted.after, wanted.after_id)
          and coalesce(s.next_run_at, '-infinity') <= v_now
          and (s.breaker_until is null or s.breaker_until <= v_now)
          and (s.planned_from is distinct from 'hit' or coalesce(s.every, s.cron) is not null)
          and public.refresh_cadence(s, wanted.cadence) is distinct from 'hit'
          and not public.refresh_is_spent(s, wanted.cadence, wanted.attempts, wanted.late, v_now)
          and (s.locked_until is null or s.locked_until <= v_now)
          and (s.every is null or public.is_band(s.every))
        order by coalesce(s.next_run_at, '-infinity'), s.id
        limit 1
      ) due
      order by due.at, due.id
      limit 1;
      exit when not found;
    end if;

    select c.*
    into acquired, reason, fence, locked_by, locked_until, next_run_at, action, args, every, failures, v_overdue
    from public.take_refresh_lock(
      p_function_name => v_next.function_name,
      p_request_id => p_request_id,
      p_lease => coalesce(p_leases[array_position(p_actions, v_next.action)], p_lease),
      p_force => false,
      p_trigger => p_trigger,
      p_job_name => null::text,
      p_schedule_time => null::text,
      p_args => null::jsonb,
      p_backoff => coalesce(p_backoffs[array_position(p_actions, v_next.action)], p_backoff),
      p_parent_request_id => p_parent_request_id,
      -- Only as what it was read: another action may want another lease.
      p_actions => array[v_next.action],
      p_max_run => p_max_run,
      p_cadence => p_cadences[array_position(p_actions, v_next.action)],
      p_attempts => p_most_attempts[array_position(p_actions, v_next.action)],
      p_late => p_lates[array_position(p_actions, v_next.action)]
    ) c;
    if acquired then
      function_name := v_next.function_name;
      return;
    end if;
    exit when v_holds;
    if v_overdue and overdue_name is null then
      overdue_name := v_next.function_name;
      overdue_holder := locked_by;
    end if;
    -- Another dispatcher is claiming this row, or has, or its args cannot be read; the next one may be free.
    v_tried := v_tried + 1;
    v_unreadable := v_unreadable + (reason = 'schedule_read_error')::integer;
    exit when v_tried >= 1000;
    v_after[v_next.place] := v_next.at;
    v_after_id[v_next.place] := v_next.id;
  end loop;

  locked_by := null;
  locked_until := null;
  next_run_at := null;
  if v_tried > v_unreadable or v_holds then
    reason := 'locked';
    due_in := '0';
    return;
  end if;
  reason := 'not_due';
  -- A free row comes due at its time, and one that runs not before its lease ends, should nobody finish it.
  select min(coming.at) into next_run_at
  from (
    select due.at
    from unnest(v_actions, p_cadences) as wanted (action, cadence)
    cross join lateral (
      select coalesce(s.next_run_at, '-infinity') as at
      from public.refresh_schedule s
      where s.completed_at is null
        and s.paused_at is null
        and s.action = wanted.action
        and coalesce(s.next_run_at, '-infinity') > v_now
        and (s.planned_from is distinct from 'hit' or coalesce(s.every, s.cron) is not null)
        and public.refresh_cadence(s, wanted.cadence) is distinct from 'hit'
        and (s.locked_until is null or s.locked_until <= v_now)
        and (s.every is null or public.is_band(s.every))
      order by coalesce(s.next_run_at, '-infinity'), s.id
      limit 1
    ) due
    union all
    select greatest(running.locked_until, running.next_run_at)
    from (
      select s.*
      from public.refresh_schedule s
      where s.locked_until > v_now
      order by s.locked_until
      limit 100
    ) running
    where running.completed_at is null
      and running.paused_at is null
      and (p_actions is null or running.action = any (p_actions))
      and (running.every is null or public.is_band(running.every))
      and running.planned_from is distinct from 'hit'
  ) coming
  -- Clients cannot read a time beyond these.
  where coming.at between '0001-01-02' and '9999-12-30';
  if next_run_at is not null then
    due_in := greatest(next_run_at - clock_timestamp(), interval '0');
  end if;
end
$$;

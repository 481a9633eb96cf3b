-- Claims the oldest due rows of these actions, at most one for each request, or says when there will be one. The rows
-- are found by plain reads; each race is decided by take_refresh_locks, and a row that somebody else is claiming is
-- passed over, as is one whose args nobody could read, and one that raises. A row whose trigger
-- owns its schedule is left alone, whatever the caller's cadence is by now, and so is one that must be planned before
-- it may run. No row is claimed before its time.
-- A row whose last two runs never finished may be one that kills its process, and with it the runs beside it. So a
-- batch has at most one such row, and none unless p_in_doubt: the caller runs no second one meanwhile.
-- Null actions mean all actions. Requests that ask again get what they hold, after waiting for their first claim if that
-- is still on its way; where one of them has had a run, none is given anything new. For claim_due_refreshes.
create or replace function public.take_due_refreshes(
  p_request_ids uuid[],
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
  p_in_doubt boolean default true,
  out claims jsonb,
  out reason text,
  out next_run_at timestamptz,
  out due_in interval,
  out overdue_name text,
  out overdue_holder text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- Every row is found at one end of an index, or by its ID. With old or missing statistics the planner must not read or
-- sort the table instead, and its estimates must not make it compile the query.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set jit = off
-- One plan serves every call: making one costs more than the claim.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_actions text[] := p_actions;
  v_leases interval[];
  v_backoffs interval[];
  v_after timestamptz[];
  v_after_id integer[];
  v_free uuid[] := p_request_ids;
  v_in_doubt boolean := p_in_doubt;
  v_due record;
  v_took record;
  v_held jsonb;
  v_first integer;
  v_last integer;
  v_size integer;
  v_tried integer := 0;
  v_unreadable integer := 0;
  v_mistake text;
begin
  if v_actions is null then
    -- The actions of the oldest rows: the oldest of all are among theirs.
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
        limit 99 + cardinality(p_request_ids)
      ) oldest
    );
  end if;
  select
    array_agg(coalesce(p_leases[array_position(p_actions, wanted.action)], p_lease) order by wanted.place),
    array_agg(coalesce(p_backoffs[array_position(p_actions, wanted.action)], p_backoff) order by wanted.place)
  into v_leases, v_backoffs
  from unnest(v_actions) with ordinality as wanted (action, place);
  v_mistake := case
    when coalesce(cardinality(p_request_ids), 0) = 0 then 'a batch needs at least one request ID'
    when (select count(distinct r) from unnest(p_request_ids) r) < cardinality(p_request_ids) then
      'the request IDs of a batch must all differ, and none may be null'
    when cardinality(p_request_ids) > 1000 then
      format('a batch has at most 1000 requests, not %s', cardinality(p_request_ids))
    when p_trigger is null then 'a claim needs the name of its trigger'
    when p_max_run not between interval '0' and interval '3650 days' then
      format('a run takes at most 3650 days, not %s', p_max_run)
    else (
      select case
        when given.lease > interval '1 day' then format('a lease is at most a day, not %s', given.lease)
        else format('a lease must be longer than zero, not %s', coalesce(given.lease::text, 'null'))
      end
      from unnest(v_leases) as given (lease)
      where given.lease is null or given.lease <= interval '0' or given.lease > interval '1 day'
      limit 1
    )
  end;
  if v_mistake is not null then
    raise exception '%', v_mistake using errcode = '22023';
  end if;

  -- The same requests may have asked before, on a connection that was lost, and that claim may still be on its way: one
  -- lock serves all of them, in whatever order they are given.
  perform pg_advisory_xact_lock(public.refresh_lock_key('request'), hashtext(first.request_id))
  from (select min(r::text) as request_id from unnest(p_request_ids) r) first;
  -- The answer if nothing is held: these requests have had their runs, and a request is one run, so ask with others.
  reason := 'locked';
  due_in := '0';
  claims := public.held_refreshes(p_request_ids, v_actions, v_leases, p_trigger, p_max_run);
  if claims is not null then
    return;
  end if;
  claims := '[]';

  v_after := array_fill('-infinity'::timestamptz, array[cardinality(v_actions)]);
  v_after_id := array_fill(0, array[cardinality(v_actions)]);
  -- A row that was passed over is not tried again.
  loop
    exit when cardinality(v_free) = 0 or v_tried >= greatest(1000, 10 * cardinality(p_request_ids));
    select
      array_agg(n.id order by n.at, n.id) as ids,
      array_agg(n.at order by n.at, n.id) as ats,
      array_agg(n.place order by n.at, n.id) as places,
      array_agg(n.function_name order by n.at, n.id) as names,
      array_agg(n.action order by n.at, n.id) as actions,
      array_agg(v_leases[n.place] order by n.at, n.id) as leases,
      array_agg(v_backoffs[n.place] order by n.at, n.id) as backoffs,
      array_agg(n.cadence order by n.at, n.id) as cadences,
      array_agg(n.attempts order by n.at, n.id) as attempts,
      array_agg(n.late order by n.at, n.id) as lates,
      bool_or(n.in_doubt) as has_doubt
    into v_due
    from (
      select
        due.*, wanted.place, wanted.cadence, wanted.attempts, wanted.late,
        row_number() over (partition by due.in_doubt order by due.at, due.id) as nth
      from unnest(v_actions, v_after, v_after_id, p_cadences, p_most_attempts, p_lates)
        with ordinality as wanted (action, after, after_id, cadence, attempts, late, place)
      cross join lateral (
        select s.function_name, s.action, s.id, coalesce(s.next_run_at, '-infinity') as at, d.in_doubt
        from public.refresh_schedule s
        -- A lease that ran out is a run that never finished and is not counted yet.
        cross join lateral (
          select s.abandoned + case when s.locked_by is null then 0 else 1 end >= 2 as in_doubt
        ) d
        where s.completed_at is null
          and s.paused_at is null
          and s.action = wanted.action
          and (coalesce(s.next_run_at, '-infinity'), s.id) > (wanted.after, wanted.after_id)
          and coalesce(s.next_run_at, '-infinity') <= v_now
          and (v_in_doubt or not d.in_doubt)
          and (s.breaker_until is null or s.breaker_until <= v_now)
          and (s.planned_from is distinct from 'hit' or coalesce(s.every, s.cron) is not null)
          and public.refresh_cadence(s, wanted.cadence) is distinct from 'hit'
          and not public.refresh_is_spent(s, wanted.cadence, wanted.attempts, wanted.late, v_now)
          and (s.locked_until is null or s.locked_until <= v_now)
          and (s.every is null or public.is_band(s.every))
          and (s.cron is null or public.is_cron(s.cron))
        order by coalesce(s.next_run_at, '-infinity'), s.id
        limit cardinality(v_free)
      ) due
      order by due.at, due.id
      limit cardinality(v_free)
    ) n
    where not n.in_doubt or n.nth = 1;
    exit when v_due.ids is null;
    v_in_doubt := v_in_doubt and not v_due.has_doubt;

    -- All of them together; if that raises, in ever smaller parts, so that a poisoned row harms only itself.
    v_first := 1;
    v_size := cardinality(v_due.ids);
    while v_first <= cardinality(v_due.ids) loop
      v_last := v_first + v_size - 1;
      begin
        select t.* into v_took
        from public.take_refresh_locks(
          p_ids => v_due.ids[v_first:v_last],
          p_request_ids => v_free,
          p_actions => v_due.actions[v_first:v_last],
          p_leases => v_due.leases[v_first:v_last],
          p_backoffs => v_due.backoffs[v_first:v_last],
          p_cadences => v_due.cadences[v_first:v_last],
          p_most_attempts => v_due.attempts[v_first:v_last],
          p_lates => v_due.lates[v_first:v_last],
          p_trigger => p_trigger,
          p_parent_request_id => p_parent_request_id,
          p_max_run => p_max_run
        ) t;
      exception
        when others then
          if left(sqlstate, 2) = '40' or sqlstate = '55P03' then
            raise;
          end if;
          if sqlstate = '23505' then
            v_held := public.held_refreshes(p_request_ids, v_actions, v_leases, p_trigger, p_max_run);
            if v_held is not null then
              -- Some of these requests have asked before, among others, and that claim got there first.
              claims := v_held;
              return;
            end if;
          end if;
          if v_size > 1 then
            v_size := v_size / 2;
            continue;
          end if;
          raise warning '"%" cannot be claimed: %', v_due.names[v_first], sqlerrm using errcode = 'CL006';
          select '[]'::jsonb as claims, 1 as unreadable, null::text as overdue_name, null::text as overdue_holder
          into v_took;
      end;
      claims := claims || v_took.claims;
      v_free := v_free[1 + jsonb_array_length(v_took.claims):];
      v_tried := v_tried + cardinality(v_due.ids[v_first:v_last]) - jsonb_array_length(v_took.claims);
      v_unreadable := v_unreadable + v_took.unreadable;
      if overdue_name is null then
        overdue_name := v_took.overdue_name;
        overdue_holder := v_took.overdue_holder;
      end if;
      v_first := v_last + 1;
      v_size := 2 * v_size;
    end loop;
    -- Other dispatchers are claiming the rest of these, or have; the next ones may be free.
    for v_first in 1 .. cardinality(v_due.ids) loop
      v_after[v_due.places[v_first]] := v_due.ats[v_first];
      v_after_id[v_due.places[v_first]] := v_due.ids[v_first];
    end loop;
  end loop;
  if claims <> '[]' then
    return;
  end if;

  if v_tried > v_unreadable then
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
  due_in := greatest(next_run_at - clock_timestamp(), case when next_run_at is not null then interval '0' end);
end
$$;

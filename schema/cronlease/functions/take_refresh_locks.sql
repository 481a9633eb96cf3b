-- Claims those of these rows that may run, each for the next of the requests, and says which row is in the way because
-- somebody else has it, although its run is overdue. As take_refresh_lock does for one: the advisory locks, then the
-- rows, then the clock; a row that somebody else has is passed over, and nobody waits. Leases, backoffs, actions and
-- the rules are parallel to the IDs. One row that raises costs all of them: the caller then asks for each by itself.
-- For take_due_refreshes.
create or replace function public.take_refresh_locks(
  p_ids integer[],
  p_request_ids uuid[],
  p_actions text[],
  p_leases interval[],
  p_backoffs interval[],
  p_cadences text[],
  p_most_attempts integer[],
  p_lates interval[],
  p_trigger text,
  p_parent_request_id uuid,
  p_max_run interval,
  out claims jsonb,
  out unreadable integer,
  out overdue_name text,
  out overdue_holder text
)
language plpgsql
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_key integer := public.refresh_lock_key('claim');
  v_mine integer[];
  v_locked integer[];
  v_granted integer[];
  v_leases interval[];
  v_backoffs interval[];
  v_mistakes text[];
  v_mistake text;
begin
  claims := '[]';
  unreadable := 0;
  -- If it is not granted, another dispatcher is claiming that row right now; it wins.
  v_mine := array(select i from unnest(p_ids) i where pg_try_advisory_xact_lock(v_key, i));
  v_locked := array(
    select s.id
    from public.refresh_schedule s
    where s.id = any (v_mine)
    for no key update skip locked
  );
  if cardinality(v_locked) < cardinality(v_mine) then
    -- The holder's data transaction has the row; its lock is the exclusion, whatever the clock says.
    select s.function_name, s.locked_by into overdue_name, overdue_holder
    from public.refresh_schedule s
    join public.refresh_runs r on r.function_name = s.function_name and r.fence = s.fence
    where s.id = any (v_mine)
      and s.id <> all (v_locked)
      and r.status = 'running'
      and r.overdue_at <= clock_timestamp()
    order by coalesce(s.next_run_at, '-infinity'), s.id
    limit 1;
  end if;
  v_now := clock_timestamp();
  select
    array_agg(d.id order by d.place) filter (where d.may_run and d.mistake is null),
    array_agg(d.lease order by d.place) filter (where d.may_run and d.mistake is null),
    array_agg(d.backoff order by d.place) filter (where d.may_run and d.mistake is null),
    array_agg(format('the args of "%s" cannot be read, so it does not run: %s', d.function_name, d.mistake))
      filter (where d.may_run and d.mistake is not null),
    count(d.id) filter (where not d.is_readable or d.may_run and d.mistake is not null)
  into v_granted, v_leases, v_backoffs, v_mistakes, unreadable
  from (
    select
      asked.*,
      s.function_name,
      public.args_mistake(p_args => s.args) as mistake,
      r.is_readable,
      r.is_readable
        -- Only with the action that was read: another action may want another lease.
        and s.action = asked.action
        -- Most often another dispatcher claimed the row, and perhaps finished, since it was read.
        and public.refresh_skip_reason(
          s, null, false, v_now, asked.cadence, asked.attempts, asked.late
        ) is null as may_run
    from unnest(p_ids, p_actions, p_leases, p_backoffs, p_cadences, p_most_attempts, p_lates)
      with ordinality as asked (id, action, lease, backoff, cadence, attempts, late, place)
    join public.refresh_schedule s on s.id = asked.id
    cross join lateral (
      select coalesce(public.is_band(s.every), true) and coalesce(public.is_cron(s.cron), true) as is_readable
      offset 0
    ) r
    where asked.id = any (v_locked)
    -- So that each row is decided once, not once for each of the arrays.
    offset 0
  ) d;
  foreach v_mistake in array coalesce(v_mistakes, '{}') loop
    raise warning '%', v_mistake using errcode = 'CL006';
  end loop;
  if v_granted is null then
    return;
  end if;
  select jsonb_agg(
    jsonb_build_object(
      'request_id', g.request_id,
      'fence', (g.schedule).fence,
      'locked_until', (g.schedule).locked_until,
      -- A time that no client can read, such as an infinite one, is returned as null: the claim stands by then.
      'next_run_at', case
        when (g.schedule).next_run_at between '0001-01-02' and '9999-12-30' then (g.schedule).next_run_at
      end,
      'action', (g.schedule).action,
      'args', g.args,
      'every', (g.schedule).every,
      'failures', (g.schedule).failures,
      'function_name', (g.schedule).function_name,
      'details', public.refresh_plan(g.schedule, v_now)
    )
    order by array_position(v_granted, (g.schedule).id)
  )
  into claims
  from public.grant_refresh_locks(
    p_ids => v_granted,
    p_request_ids => p_request_ids[:cardinality(v_granted)],
    p_leases => v_leases,
    p_backoffs => v_backoffs,
    p_at => v_now,
    p_force => false,
    p_trigger => p_trigger,
    p_parent_request_id => p_parent_request_id,
    p_max_run => p_max_run
  ) g;
end
$$;

-- Claims the row for one run, or says why not: the advisory lock, then the row, then the clock, so that a lease
-- granted after a wait is never short; a contender never waits, and a request that asks again waits only for its own
-- first claim. For acquire_refresh_lock, which by then has usually seen that the row may run; take_refresh_locks is the
-- same for many.
create or replace function public.take_refresh_lock(
  p_function_name text,
  p_request_id uuid,
  p_lease interval,
  p_force boolean,
  p_trigger text,
  p_job_name text,
  p_schedule_time text,
  p_args jsonb,
  p_backoff interval,
  p_parent_request_id uuid,
  p_actions text[],
  p_max_run interval default null,
  p_cadence text default null,
  p_attempts integer default null,
  p_late interval default null,
  p_early boolean default false,
  p_delivery text default null,
  p_delivery_at timestamptz default null,
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
  out overdue boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- Nothing here waits for a row; this bounds a wait for a request's own first claim, or for a table that is being
-- changed.
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_row public.refresh_schedule;
  v_id integer;
  v_fence bigint;
  v_action text;
  v_every text;
  v_cron text;
  v_is_hit boolean;
  v_delivery text := p_delivery;
  v_now timestamptz := clock_timestamp();
  v_mistake text;
begin
  select
    false,
    public.refresh_skip_reason(s, p_request_id, p_force, v_now, p_cadence, p_attempts, p_late, p_early),
    s.locked_by,
    -- Clients cannot read an infinite time: forever is returned as null.
    nullif(s.locked_until, 'infinity'),
    nullif(public.refresh_next_at(s, v_now), 'infinity'),
    s.id,
    s.fence,
    s.action,
    s.every,
    s.cron,
    public.refresh_cadence(s, p_cadence) = 'hit'
  into
    acquired, reason, locked_by, locked_until, next_run_at, v_id, v_fence, v_action, v_every, v_cron, v_is_hit
  from public.refresh_schedule s
  where s.function_name = p_function_name;
  if reason is not null then
    return;
  end if;
  -- That lease has run out: whoever has the row by now has it until another time.
  locked_until := null;

  if v_id is null then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  if v_action <> all (p_actions) then
    -- Whoever asks cannot run it: another deployment can, or will.
    reason := 'unknown_action';
    return;
  end if;
  v_mistake := case
    when p_request_id is null or p_trigger is null then 'a claim needs a request ID and the name of its trigger'
    when p_lease is null or p_lease <= interval '0' then
      format('a lease must be longer than zero, not %s', coalesce(p_lease::text, 'null'))
    when p_lease > interval '1 day' then format('a lease is at most a day, not %s', p_lease)
    when p_max_run not between interval '0' and interval '3650 days' then
      format('a run takes at most 3650 days, not %s', p_max_run)
    else public.args_mistake(p_args => p_args)
  end;
  if v_mistake is not null then
    raise exception '%', v_mistake using errcode = '22023';
  end if;
  if not public.is_band(v_every) then
    -- A cadence that cannot be read must be corrected by a person before the job may run.
    reason := 'schedule_read_error';
    return;
  end if;
  if not public.is_cron(v_cron) then
    reason := 'schedule_read_error';
    return;
  end if;
  if p_delivery_at > v_now + interval '5 seconds' then
    -- No scheduler delivers before its time: somebody pressed a button, which uses up no delivery.
    v_delivery := null;
  elsif v_is_hit and public.refresh_was_delivered(p_function_name => p_function_name, p_delivery => v_delivery) then
    reason := 'duplicate';
    return;
  end if;
  -- The same request may have asked before, on a connection that was lost, and that claim may still be on its way.
  perform pg_advisory_xact_lock(public.refresh_lock_key('request'), hashtext(p_request_id::text));
  if exists (
    select
    from public.refresh_schedule s
    where s.id = v_id
      and s.locked_by = p_request_id::text
  ) then
    -- It has been committed. A commit lets go of its locks one by one, after its rows can be seen: this one is next.
    perform pg_advisory_xact_lock(public.refresh_lock_key('claim'), v_id);
  elsif not pg_try_advisory_xact_lock(public.refresh_lock_key('claim'), v_id) then
    -- Another hit is claiming this row right now; it wins.
    reason := 'locked';
    return;
  end if;
  select s.* into v_row
  from public.refresh_schedule s
  where s.id = v_id
  for no key update skip locked;
  if not found then
    -- The holder's data transaction has the row; its lock is the exclusion, whatever the clock says.
    reason := 'locked';
    overdue := exists (
      select
      from public.refresh_runs r
      where r.function_name = p_function_name
        and r.fence = v_fence
        and r.status = 'running'
        and r.overdue_at <= clock_timestamp()
    );
    return;
  end if;
  v_now := clock_timestamp();
  reason := public.refresh_skip_reason(
    v_row, p_request_id, p_force, v_now, p_cadence, p_attempts, p_late, p_early
  );
  if not public.is_band(v_row.every) then
    reason := 'schedule_read_error';
  elsif not public.is_cron(v_row.cron) then
    reason := 'schedule_read_error';
  elsif reason is null and v_row.action <> all (p_actions) then
    reason := 'unknown_action';
  elsif reason is null
    and v_row.locked_by is distinct from p_request_id::text
    and exists (select from public.refresh_runs r where r.request_id = p_request_id)
  then
    -- This request has had its run, and a request is one run: ask with another.
    reason := 'locked';
  elsif reason is null and v_row.locked_by is distinct from p_request_id::text then
    if p_trigger in ('exec', 'lease')
      and p_cadence = 'hit'
      and v_row.planned_from is distinct from 'hit'
      and coalesce(v_row.planned_from, v_row.every, v_row.cron, v_row.next_run_at::text) is not null
      and coalesce(
        (
          select r.trigger
          from public.refresh_runs r
          where r.function_name = p_function_name
          order by r.fence desc
          limit 1
        ),
        'none'
      ) not in ('exec', 'lease')
    then
      -- A command or a block without a cadence runs whenever it is free, and would replace the plan of a function.
      raise exception '"%" is the schedule of a function: choose another name', p_function_name
        using errcode = 'CL007';
    end if;
    -- Whoever is granted a lease must be able to read what it is to do. A person must correct the row.
    v_mistake := public.args_mistake(p_args => v_row.args);
    if v_mistake is not null then
      raise warning 'the args of "%" cannot be read, so it does not run: %', p_function_name, v_mistake
        using errcode = 'CL006';
      reason := 'schedule_read_error';
    elsif public.refresh_cadence(v_row, p_cadence) = 'hit'
      and public.refresh_was_delivered(p_function_name => p_function_name, p_delivery => v_delivery)
    then
      -- Another hit of the same delivery ran and succeeded since the row was read.
      reason := 'duplicate';
    end if;
  end if;
  if reason is not null then
    -- Most often another hit claimed the row, and perhaps finished, since it was read.
    locked_by := v_row.locked_by;
    locked_until := case when v_row.locked_until > v_now then nullif(v_row.locked_until, 'infinity') end;
    next_run_at := nullif(public.refresh_next_at(v_row, v_now), 'infinity');
    return;
  end if;

  if v_row.locked_by = p_request_id::text then
    -- The same request asks again: its first answer was lost on the way. Same run, same fence.
    update public.refresh_schedule s
    set locked_until = v_now + p_lease
    where s.id = v_id
    returning s.locked_until into locked_until;
    select r.args into args
    from public.refresh_runs r
    where r.request_id = p_request_id;
  else
    select
      (g.schedule).fence,
      (g.schedule).locked_by,
      (g.schedule).locked_until,
      -- A time that no client can read, such as an infinite one, is returned as null: the claim stands by then.
      case when (g.schedule).next_run_at between '0001-01-02' and '9999-12-30' then (g.schedule).next_run_at end,
      g.args
    into v_row.fence, locked_by, locked_until, next_run_at, args
    from public.grant_refresh_locks(
      p_ids => array[v_id],
      p_request_ids => array[p_request_id],
      p_leases => array[p_lease],
      p_backoffs => array[p_backoff],
      p_at => v_now,
      p_force => p_force,
      p_trigger => p_trigger,
      p_parent_request_id => p_parent_request_id,
      p_max_run => p_max_run,
      p_job_name => p_job_name,
      p_schedule_time => p_schedule_time,
      p_args => p_args,
      p_delivery => v_delivery
    ) g;
  end if;

  acquired := true;
  fence := v_row.fence;
  action := v_row.action;
  every := v_row.every;
  failures := v_row.failures;
end
$$;

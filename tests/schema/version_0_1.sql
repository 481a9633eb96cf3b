-- A database as version 0.1 (commit 2b9fe17) left it, by pg_dump 15: one run of each ending, one under way, openings.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE FUNCTION public.abandon_refresh_run(p_function_name text, p_fence bigint, p_error text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
  update public.refresh_runs r
  set status = 'abandoned',
      finished_at = clock_timestamp(),
      error = p_error
  where r.function_name = p_function_name
    and r.fence >= p_fence
    and r.status = 'running';
  return found;
end
$$;

CREATE FUNCTION public.acquire_refresh_lock(p_function_name text, p_request_id uuid, p_lease interval DEFAULT '00:05:00'::interval, p_force boolean DEFAULT false, p_trigger text DEFAULT 'manual'::text, p_job_name text DEFAULT NULL::text, p_schedule_time text DEFAULT NULL::text, p_args jsonb DEFAULT NULL::jsonb, p_backoff interval DEFAULT '00:30:00'::interval, p_parent_request_id uuid DEFAULT NULL::uuid, p_actions text[] DEFAULT NULL::text[], OUT acquired boolean, OUT reason text, OUT fence bigint, OUT locked_by text, OUT locked_until timestamp with time zone, OUT next_run_at timestamp with time zone, OUT action text, OUT args jsonb, OUT every text, OUT failures integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
begin
  select
    false,
    public.refresh_skip_reason(s.schedule, p_request_id, p_force, v_now),
    s.locked_by,
    -- Clients cannot read an infinite time: forever is told as null.
    nullif(s.locked_until, 'infinity'),
    nullif(s.next_run_at, 'infinity')
  into acquired, reason, locked_by, locked_until, next_run_at
  from public.refresh_rows s
  where s.function_name = p_function_name;
  if reason is null then
    select t.* into acquired, reason, fence, locked_by, locked_until, next_run_at, action, args, every, failures
    from public.take_refresh_lock(
      p_function_name => p_function_name,
      p_request_id => p_request_id,
      p_lease => p_lease,
      p_force => p_force,
      p_trigger => p_trigger,
      p_job_name => p_job_name,
      p_schedule_time => p_schedule_time,
      p_args => p_args,
      p_backoff => p_backoff,
      p_parent_request_id => p_parent_request_id,
      p_actions => p_actions
    ) t;
  end if;
end
$$;

CREATE FUNCTION public.assert_lease(p_function_name text, p_request_id uuid, p_fence bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  for no key update;
  if not found then
    raise exception 'run % no longer holds the lease of "%"', p_request_id, p_function_name
      using errcode = 'CL001';
  end if;
end
$$;

CREATE FUNCTION public.claim_due_refresh(p_request_id uuid, p_lease interval DEFAULT '00:05:00'::interval, p_actions text[] DEFAULT NULL::text[], p_leases interval[] DEFAULT NULL::interval[], p_backoff interval DEFAULT '00:30:00'::interval, p_backoffs interval[] DEFAULT NULL::interval[], p_trigger text DEFAULT 'run_due'::text, p_parent_request_id uuid DEFAULT NULL::uuid, OUT acquired boolean, OUT reason text, OUT fence bigint, OUT locked_by text, OUT locked_until timestamp with time zone, OUT next_run_at timestamp with time zone, OUT action text, OUT args jsonb, OUT every text, OUT failures integer, OUT function_name text, OUT due_in interval) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_actions text[] := p_actions;
  v_after timestamptz[];
  v_after_id integer[];
  v_next record;
  v_holds boolean;
  v_tried integer := 0;
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
      from unnest(v_actions, v_after, v_after_id) with ordinality as wanted (action, after, after_id, place)
      cross join lateral (
        select s.function_name, s.action, s.id, coalesce(s.next_run_at, '-infinity') as at
        from public.refresh_schedule s
        where s.completed_at is null
          and s.paused_at is null
          and s.action = wanted.action
          and (coalesce(s.next_run_at, '-infinity'), s.id) > (wanted.after, wanted.after_id)
          and coalesce(s.next_run_at, '-infinity') <= v_now
          and (s.locked_until is null or s.locked_until <= v_now)
          and (s.every is null or public.is_band(s.every))
        order by coalesce(s.next_run_at, '-infinity'), s.id
        limit 1
      ) due
      order by due.at, due.id
      limit 1;
      exit when not found;
    end if;

    select c.* into acquired, reason, fence, locked_by, locked_until, next_run_at, action, args, every, failures
    from public.take_refresh_lock(
      p_function_name => v_next.function_name,
      p_request_id => p_request_id,
      p_lease => coalesce(p_leases[array_position(p_actions, v_next.action)], p_lease),
      p_force => false,
      p_trigger => p_trigger,
      p_job_name => null,
      p_schedule_time => null,
      p_args => null,
      p_backoff => coalesce(p_backoffs[array_position(p_actions, v_next.action)], p_backoff),
      p_parent_request_id => p_parent_request_id,
      -- Only as what it was read: another action may want another lease.
      p_actions => array[v_next.action]
    ) c;
    if acquired then
      function_name := v_next.function_name;
      return;
    end if;
    exit when v_holds;
    -- Another dispatcher is claiming this row, or has; the next one may be free.
    v_tried := v_tried + 1;
    exit when v_tried >= 1000;
    v_after[v_next.place] := v_next.at;
    v_after_id[v_next.place] := v_next.id;
  end loop;

  locked_by := null;
  locked_until := null;
  next_run_at := null;
  if v_tried > 0 or v_holds then
    reason := 'locked';
    due_in := '0';
    return;
  end if;
  reason := 'not_due';
  -- A free row comes due at its time, and one that runs not before its lease ends, should nobody finish it.
  select min(coming.at) into next_run_at
  from (
    select due.at
    from unnest(v_actions) as wanted (action)
    cross join lateral (
      select coalesce(s.next_run_at, '-infinity') as at
      from public.refresh_schedule s
      where s.completed_at is null
        and s.paused_at is null
        and s.action = wanted.action
        and coalesce(s.next_run_at, '-infinity') > v_now
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
  ) coming
  -- Clients cannot read a time beyond these.
  where coming.at between '0001-01-02' and '9999-12-30';
  if next_run_at is not null then
    due_in := greatest(next_run_at - clock_timestamp(), interval '0');
  end if;
end
$$;

CREATE FUNCTION public.delete_refresh(p_function_name text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    AS $$
begin
  if public.hold_idle_refresh(
    p_function_name => p_function_name,
    p_error => 'the run never finished: its schedule was deleted'
  ) is null then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  delete from public.refresh_schedule s
  where s.function_name = p_function_name;
  return true;
end
$$;

CREATE FUNCTION public.due_refreshes(p_actions text[] DEFAULT NULL::text[], OUT due bigint, OUT unknown bigint, OUT unknown_names text[]) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
    AS $$
declare
  v_now timestamptz := clock_timestamp();
begin
  select
    count(*) filter (
      where (p_actions is null or s.action = any (p_actions))
        and (s.every is null or public.is_band(s.every))
    ),
    count(*) filter (where s.action <> all (p_actions))
  into due, unknown
  from (
    select n.action, n.every, n.locked_until
    from public.refresh_schedule n
    where n.completed_at is null
      and n.paused_at is null
      and n.next_run_at is null
    union all
    select d.action, d.every, d.locked_until
    from public.refresh_schedule d
    where d.completed_at is null
      and d.paused_at is null
      and d.next_run_at <= v_now
  ) s
  where s.locked_until is null or s.locked_until <= v_now;

  unknown_names := '{}';
  if unknown > 0 then
    unknown_names := array(
      select s.function_name
      from (
        (
          select n.*
          from public.refresh_schedule n
          where n.completed_at is null
            and n.paused_at is null
            and n.next_run_at is null
            and (n.locked_until is null or n.locked_until <= v_now)
            and n.action <> all (p_actions)
          limit 20
        )
        union all
        (
          select d.*
          from public.refresh_schedule d
          where d.completed_at is null
            and d.paused_at is null
            and d.next_run_at <= v_now
            and (d.locked_until is null or d.locked_until <= v_now)
            and d.action <> all (p_actions)
          order by d.next_run_at nulls first
          limit 20
        )
      ) s
      order by s.next_run_at nulls first, s.id
      limit 20
    );
  end if;
end
$$;

CREATE FUNCTION public.ensure_schedule(p_function_name text, p_action text DEFAULT NULL::text, p_args jsonb DEFAULT '{}'::jsonb, p_every text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
begin
  if exists (select from public.refresh_schedule s where s.function_name = p_function_name) then
    return 'exists';
  end if;
  if not pg_try_advisory_xact_lock(2, hashtext(p_function_name)) then
    return 'locked';
  end if;
  -- A row that was deleted and comes back goes on counting: no old holder can match its fence.
  insert into public.refresh_schedule (function_name, action, args, every, fence)
  select
    p_function_name,
    coalesce(p_action, p_function_name),
    p_args,
    p_every,
    coalesce(max(r.fence), 0)
  from public.refresh_runs r
  where r.function_name = p_function_name
  on conflict (function_name) do nothing;
  return case when found then 'created' else 'exists' end;
end
$$;

CREATE FUNCTION public.finish_refresh_run(p_function_name text, p_request_id uuid, p_fence bigint, p_status text, p_delay interval DEFAULT '00:00:00'::interval, p_error text DEFAULT NULL::text, p_fetched bigint DEFAULT NULL::bigint, p_inserted bigint DEFAULT NULL::bigint, p_updated bigint DEFAULT NULL::bigint, p_unchanged bigint DEFAULT NULL::bigint, p_closed bigint DEFAULT NULL::bigint, p_retention interval DEFAULT '30 days'::interval, OUT status text, OUT next_run_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_id integer;
  v_done boolean := p_status in ('success', 'partial');
begin
  if p_status is null or p_status not in ('success', 'partial', 'failed', 'interrupted') then
    raise exception 'a run ends as success, partial, failed or interrupted, not %', p_status
      using errcode = '22023';
  end if;

  select s.id into v_id
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  for no key update;
  if not found then
    select r.status, r.next_run_at into status, next_run_at
    from public.refresh_runs r
    where r.request_id = p_request_id
      and r.function_name = p_function_name
      and r.fence = p_fence
      and r.status in ('success', 'partial', 'failed', 'interrupted');
    if not found then
      raise exception 'run % no longer holds the lease of "%"', p_request_id, p_function_name
        using errcode = 'CL001';
    end if;
    return;
  end if;

  v_now := clock_timestamp();
  update public.refresh_schedule s
  set locked_by = null,
      locked_until = null,
      next_run_at = case
        when s.once and v_done then null
        -- Not its fault: it keeps its place among those that are due.
        when p_status = 'interrupted' and coalesce(s.next_run_at <= v_now, true) then s.next_run_at
        else v_now + coalesce(p_delay, interval '0')
      end,
      completed_at = case when s.once and v_done then v_now end,
      last_run_at = v_now,
      last_status = p_status,
      last_error = p_error,
      failures = case p_status
        when 'failed' then s.failures + 1
        when 'interrupted' then s.failures
        else 0
      end,
      abandoned = 0,
      run_count = s.run_count + 1
  where s.id = v_id
  returning p_status, s.next_run_at
  into status, next_run_at;

  update public.refresh_runs r
  set status = p_status,
      finished_at = v_now,
      error = p_error,
      fetched = p_fetched,
      inserted = p_inserted,
      updated = p_updated,
      unchanged = p_unchanged,
      closed = p_closed,
      next_run_at = finish_refresh_run.next_run_at
  where r.request_id = p_request_id;

  if (
    select old.started_at
    from public.refresh_runs old
    where old.function_name = p_function_name
    order by old.fence
    limit 1
  ) < v_now - p_retention then
    delete from public.refresh_runs r
    where r.request_id in (
      select old.request_id
      from public.refresh_runs old
      where old.function_name = p_function_name
        and old.started_at < v_now - p_retention
        and old.request_id <> p_request_id
      order by old.fence
      limit 100
    );
  end if;
end
$$;

CREATE FUNCTION public.hold_idle_refresh(p_function_name text, p_error text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
declare
  v_row public.refresh_schedule;
  v_busy boolean;
begin
  select s.* into v_row
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for update skip locked;
  v_busy := not found;
  if v_busy then
    select s.* into v_row
    from public.refresh_schedule s
    where s.function_name = p_function_name;
    if not found then
      return null;
    end if;
  end if;
  -- Busy: somebody is claiming the row, or its holder is writing, whatever the clock says of the lease.
  if v_busy or v_row.locked_until > clock_timestamp() then
    raise exception '"%" is running%: wait for it, or unlock it',
      p_function_name,
      coalesce(
        to_char(nullif(v_row.locked_until, 'infinity') at time zone 'UTC', '" until "YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        ''
      )
      using errcode = 'CL004';
  end if;
  perform public.abandon_refresh_run(p_function_name => p_function_name, p_fence => v_row.fence, p_error => p_error);
  return v_row.fence;
end
$$;

CREATE FUNCTION public.is_band(p_text text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $_$
  select case
    when p_text !~ '^[0-9]{1,9}(\.[0-9]{1,6})?[smhd](\.\.[0-9]{1,9}(\.[0-9]{1,6})?[smhd])?$' then false
    else split_part(p_text, '..', 1)::interval
      <= least(nullif(split_part(p_text, '..', 2), '')::interval, interval '3650 days')
      and coalesce(nullif(split_part(p_text, '..', 2), '')::interval <= interval '3650 days', true)
  end
$_$;

CREATE FUNCTION public.keep_first_seen_at() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if tg_op = 'INSERT' then
    new.first_seen_at := transaction_timestamp();
  else
    new.first_seen_at := old.first_seen_at;
  end if;
  return new;
end
$$;

CREATE FUNCTION public.opening_fingerprint(p_external_id text, p_content_hash bytea) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  select hashtextextended((p_external_id || encode(p_content_hash, 'hex')) collate "C", 0)
$$;

CREATE FUNCTION public.pause_refresh(p_function_name text, p_reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    AS $$
declare
  v_paused_at timestamptz;
begin
  select s.paused_at into v_paused_at
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for no key update;
  if not found then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  if v_paused_at is null or p_reason is not null then
    update public.refresh_schedule s
    set paused_at = coalesce(v_paused_at, clock_timestamp()),
        paused_reason = p_reason
    where s.function_name = p_function_name;
  end if;
  return v_paused_at is null;
end
$$;

CREATE FUNCTION public.read_refresh_status(p_runs integer DEFAULT 20, p_schedules integer DEFAULT 100) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
  with candidates as (
    (
      select s.function_name, 1 as place, row_number() over (order by s.locked_until rows unbounded preceding) as turn
      from public.refresh_schedule s
      where s.locked_until is not null
      order by s.locked_until
      limit p_schedules
    )
    union all
    (
      select s.function_name, 2, row_number() over (order by s.next_run_at nulls first rows unbounded preceding)
      from public.refresh_schedule s
      where s.completed_at is null
        and s.paused_at is null
      order by s.next_run_at nulls first
      limit p_schedules
    )
    union all
    (
      select s.function_name, 3, row_number() over (order by s.paused_at desc rows unbounded preceding)
      from public.refresh_schedule s
      where s.paused_at is not null
      order by s.paused_at desc
      limit p_schedules
    )
    union all
    (
      select s.function_name, 4, row_number() over (order by s.completed_at desc rows unbounded preceding)
      from public.refresh_schedule s
      where s.completed_at is not null
      order by s.completed_at desc
      limit p_schedules
    )
  ),
  chosen as (
    select c.function_name
    from candidates c
    group by c.function_name
    order by min(c.place), min(c.turn)
    limit p_schedules
  )
  select jsonb_build_object(
    'schedules', coalesce(
      (
        select jsonb_agg(to_jsonb(s) order by s.function_name)
        from public.refresh_status s
        -- An array, not a join: the few rows are looked up by their key, whatever the planner guesses.
        where s.function_name = any (array(select chosen.function_name from chosen))
      ),
      '[]'
    ),
    'runs', coalesce(
      (
        select jsonb_agg(to_jsonb(r) order by r.started_at desc)
        from (select * from public.refresh_runs order by started_at desc limit p_runs) r
      ),
      '[]'
    )
  )
$$;

CREATE FUNCTION public.recover_stale_dispatches(p_older_than interval DEFAULT '00:05:00'::interval) RETURNS integer
    LANGUAGE sql
    SET lock_timeout TO '2s'
    AS $$
  with stale as (
    select s.id, s.function_name, s.locked_by
    from public.refresh_schedule s
    -- Read once, in a subselect: an index cannot be searched for something that may differ from row to row.
    where s.locked_until <= (select clock_timestamp())
      and not exists (
        select
        from public.refresh_runs r
        where r.function_name = s.function_name
          and r.status = 'running'
          and r.started_at > clock_timestamp() - p_older_than
      )
    for no key update skip locked
  ),
  closed as (
    update public.refresh_runs r
    set status = 'abandoned',
        finished_at = clock_timestamp(),
        error = 'the run never finished: its lease ran out and was cleared'
    from stale
    where r.function_name = stale.function_name
      and r.status = 'running'
  ),
  freed as (
    update public.refresh_schedule s
    set locked_by = null,
        locked_until = null,
        last_status = 'abandoned',
        last_error = 'the run never finished: its lease ran out and was cleared',
        abandoned = s.abandoned + 1
    -- An array, not a join: the few rows are looked up by their key, whatever the planner guesses.
    where s.id = any (array(select stale.id from stale))
    returning s.id
  )
  select count(*)::integer from freed
$$;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE public.refresh_schedule (
    function_name text NOT NULL,
    next_run_at timestamp with time zone,
    last_run_at timestamp with time zone,
    last_status text,
    id integer NOT NULL,
    action text NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    every text,
    once boolean DEFAULT false NOT NULL,
    completed_at timestamp with time zone,
    last_error text,
    failures integer DEFAULT 0 NOT NULL,
    abandoned integer DEFAULT 0 NOT NULL,
    run_count bigint DEFAULT 0 NOT NULL,
    locked_until timestamp with time zone,
    locked_by text,
    fence bigint DEFAULT 0 NOT NULL,
    paused_at timestamp with time zone,
    paused_reason text,
    CONSTRAINT abandoned_not_negative CHECK ((abandoned >= 0)),
    CONSTRAINT args_is_an_object CHECK ((jsonb_typeof(args) = 'object'::text)),
    CONSTRAINT failures_not_negative CHECK ((failures >= 0)),
    CONSTRAINT fence_not_negative CHECK ((fence >= 0)),
    CONSTRAINT lock_has_a_holder CHECK (((locked_by IS NULL) = (locked_until IS NULL))),
    CONSTRAINT only_a_one_shot_completes CHECK (((completed_at IS NULL) OR once))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE FUNCTION public.refresh_skip_reason(p_row public.refresh_schedule, p_request_id uuid, p_force boolean, p_at timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE
    AS $$
  select case
    when (p_row).completed_at is not null then 'completed'
    when (p_row).paused_at is not null then 'paused'
    -- The same request asking again is let through, whatever its own claim has moved.
    when (p_row).locked_by = p_request_id::text then null
    when (p_row).locked_until > p_at then 'locked'
    when (p_row).next_run_at > p_at and not p_force then 'not_due'
  end
$$;

CREATE FUNCTION public.release_refresh_lock(p_function_name text, p_request_id uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
begin
  update public.refresh_schedule s
  set locked_by = null,
      locked_until = null
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text;
  return found;
end
$$;

CREATE FUNCTION public.renew_refresh_lock(p_function_name text, p_request_id uuid, p_fence bigint, p_lease interval) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
begin
  perform
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  for no key update skip locked;
  if found then
    update public.refresh_schedule s
    set locked_until = clock_timestamp() + p_lease
    where s.function_name = p_function_name;
    return 'renewed';
  end if;
  perform
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence;
  return case when found then 'busy' else 'lost' end;
end
$$;

CREATE FUNCTION public.resume_refresh(p_function_name text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    AS $$
declare
  v_paused_at timestamptz;
begin
  select s.paused_at into v_paused_at
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for no key update;
  if not found then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  if v_paused_at is not null then
    update public.refresh_schedule s
    set paused_at = null,
        paused_reason = null
    where s.function_name = p_function_name;
  end if;
  return v_paused_at is not null;
end
$$;

CREATE FUNCTION public.schedule_action(p_function_name text, p_action text, p_args jsonb DEFAULT '{}'::jsonb, p_delay interval DEFAULT NULL::interval, p_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_every text DEFAULT NULL::text, p_replace boolean DEFAULT false, OUT created boolean, OUT next_run_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
#variable_conflict use_column
declare
  v_mistake text := case
    when coalesce(btrim(p_function_name), '') = '' then 'a schedule needs a name'
    when coalesce(btrim(p_action), '') = '' then 'a schedule needs an action'
    when octet_length(p_function_name) > 1000 then 'the name of a schedule has at most 1000 bytes'
    when octet_length(p_action) > 1000 then 'the name of an action has at most 1000 bytes'
    when p_at is not null and p_delay is not null then 'say when either by a time or by a delay, not by both'
    when p_at not between '0001-01-02' and '9999-12-30' then format('%s is no time to run at', p_at)
    when p_delay < interval '0' then format('a delay must not be negative, as %s is', p_delay)
    when p_delay > interval '36500 days' then format('a delay is at most 36500 days, and %s is longer', p_delay)
    when not public.is_band(p_every) then format('"%s" is no cadence: write 10m, or 10m..15m', p_every)
    when jsonb_typeof(p_args) <> 'object' then format('args are an object, not %s', left(p_args::text, 40))
  end;
  v_fence bigint;
begin
  if v_mistake is not null then
    raise exception '%', v_mistake using errcode = '22023';
  end if;
  -- One who ensures the same row is told at once that it is being created, and need not wait for us.
  perform pg_try_advisory_xact_lock(2, hashtext(p_function_name));

  loop
    if not exists (select from public.refresh_schedule s where s.function_name = p_function_name) then
      insert into public.refresh_schedule as s (function_name, action, args, every, once, next_run_at, fence)
      select
        p_function_name,
        p_action,
        coalesce(p_args, '{}'),
        p_every,
        p_every is null,
        coalesce(p_at, clock_timestamp() + coalesce(p_delay, interval '0')),
        -- A row that was deleted and comes back goes on counting: no old holder can match its fence.
        coalesce(max(r.fence), 0)
      from public.refresh_runs r
      where r.function_name = p_function_name
      on conflict (function_name) do nothing
      returning true, s.next_run_at
      into created, next_run_at;
    elsif p_replace then
      v_fence := public.hold_idle_refresh(
        p_function_name => p_function_name,
        p_error => 'the run never finished: its schedule was replaced'
      );
      update public.refresh_schedule s
      set action = p_action,
          args = coalesce(p_args, '{}'),
          every = p_every,
          once = p_every is null,
          next_run_at = coalesce(p_at, clock_timestamp() + coalesce(p_delay, interval '0')),
          completed_at = null,
          failures = 0,
          abandoned = 0,
          last_status = case when s.locked_by is null then s.last_status else 'abandoned' end,
          last_error = null,
          locked_by = null,
          locked_until = null
      where s.function_name = p_function_name
        and s.fence = v_fence
      returning false, s.next_run_at
      into created, next_run_at;
    else
      raise exception 'there is already a schedule named "%": delete it, choose another name, or replace it',
        p_function_name
        using errcode = 'CL003';
    end if;
    -- Neither: another has just created the row, or deleted it. Look again.
    exit when created is not null;
  end loop;
end
$$;

CREATE FUNCTION public.take_refresh_lock(p_function_name text, p_request_id uuid, p_lease interval, p_force boolean, p_trigger text, p_job_name text, p_schedule_time text, p_args jsonb, p_backoff interval, p_parent_request_id uuid, p_actions text[], OUT acquired boolean, OUT reason text, OUT fence bigint, OUT locked_by text, OUT locked_until timestamp with time zone, OUT next_run_at timestamp with time zone, OUT action text, OUT args jsonb, OUT every text, OUT failures integer) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
#variable_conflict use_column
declare
  v_row public.refresh_schedule;
  v_id integer;
  v_action text;
  v_every text;
  v_now timestamptz := clock_timestamp();
  v_orphans integer;
begin
  select
    false,
    public.refresh_skip_reason(s, p_request_id, p_force, v_now),
    s.locked_by,
    -- Clients cannot read an infinite time: forever is told as null.
    nullif(s.locked_until, 'infinity'),
    nullif(s.next_run_at, 'infinity'),
    s.id,
    s.action,
    s.every
  into acquired, reason, locked_by, locked_until, next_run_at, v_id, v_action, v_every
  from public.refresh_schedule s
  where s.function_name = p_function_name;
  if reason is not null then
    return;
  end if;

  if v_id is null then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  if v_action <> all (p_actions) then
    -- Whoever asks cannot run it: another deployment can, or will.
    reason := 'unknown_action';
    return;
  end if;
  if p_lease is null or p_lease <= interval '0' then
    raise exception 'a lease must be longer than zero, not %', p_lease using errcode = '22023';
  end if;
  if not public.is_band(v_every) then
    -- A cadence that cannot be read must be mended by a person before the job may run.
    reason := 'schedule_read_error';
    return;
  end if;
  if not pg_try_advisory_xact_lock(1, v_id) then
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
    return;
  end if;
  v_now := clock_timestamp();
  reason := public.refresh_skip_reason(v_row, p_request_id, p_force, v_now);
  if not public.is_band(v_row.every) then
    reason := 'schedule_read_error';
  elsif reason is null and v_row.action <> all (p_actions) then
    reason := 'unknown_action';
  elsif reason is null
    and v_row.locked_by is distinct from p_request_id::text
    and exists (select from public.refresh_runs r where r.request_id = p_request_id)
  then
    -- This request has had its run, and a request is one run: ask with another.
    reason := 'locked';
  end if;
  if reason is not null then
    -- Most often another hit claimed the row, and perhaps finished, since it was read.
    locked_by := v_row.locked_by;
    locked_until := nullif(v_row.locked_until, 'infinity');
    next_run_at := nullif(v_row.next_run_at, 'infinity');
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
    -- At most one run of a function is open, and it is the newest.
    update public.refresh_runs r
    set status = 'abandoned',
        finished_at = v_now,
        error = 'the run never finished: its process died or lost its lease'
    where r.function_name = p_function_name
      and r.fence >= v_row.fence
      and r.status = 'running';
    get diagnostics v_orphans = row_count;

    -- From the third run in a row that never finished, starting costs a backoff in advance:
    -- a run that kills its process must not be started again at every hit.
    update public.refresh_schedule s
    set locked_by = p_request_id::text,
        locked_until = v_now + p_lease,
        fence = v_row.fence + 1,
        abandoned = v_row.abandoned + v_orphans,
        last_status = case when v_orphans > 0 then 'abandoned' else v_row.last_status end,
        next_run_at = case
          when v_row.abandoned + v_orphans >= 3 then v_now + p_backoff
          else v_row.next_run_at
        end
    where s.id = v_id
    -- A time that no client can read, such as an infinite one, is told as null: the claim stands by then.
    returning
      s.fence,
      s.locked_by,
      s.locked_until,
      case when s.next_run_at between '0001-01-02' and '9999-12-30' then s.next_run_at end
    into v_row.fence, locked_by, locked_until, next_run_at;

    insert into public.refresh_runs as r (
      request_id, function_name, action, args, fence,
      trigger, job_name, schedule_time, parent_request_id, started_at
    )
    values (
      p_request_id, p_function_name, v_row.action, v_row.args || coalesce(p_args, '{}'), v_row.fence,
      p_trigger, p_job_name, p_schedule_time, p_parent_request_id, v_now
    )
    returning r.args into args;
  end if;

  acquired := true;
  fence := v_row.fence;
  action := v_row.action;
  every := v_row.every;
  failures := v_row.failures;
end
$$;

CREATE FUNCTION public.unlock_refresh(p_function_name text, p_request_id uuid DEFAULT NULL::uuid, OUT unlocked boolean, OUT locked_by text, OUT locked_until timestamp with time zone) RETURNS record
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    AS $$
#variable_conflict use_column
declare
  v_id integer;
  v_fence bigint;
begin
  select s.id, s.fence, s.locked_by, nullif(s.locked_until, 'infinity')
  into v_id, v_fence, locked_by, locked_until
  from public.refresh_schedule s
  where s.function_name = p_function_name
  for no key update;
  if not found then
    raise exception 'there is no schedule named "%": create it with ensure_schedule', p_function_name
      using errcode = 'CL002';
  end if;
  unlocked := coalesce(locked_by = coalesce(p_request_id::text, locked_by), false);
  if not unlocked then
    return;
  end if;

  update public.refresh_schedule s
  set locked_by = null,
      locked_until = null,
      last_status = 'abandoned',
      last_error = 'the lease was broken by an operator'
  where s.id = v_id;
  perform public.abandon_refresh_run(
    p_function_name => p_function_name,
    p_fence => v_fence,
    p_error => 'the lease was broken by an operator'
  );
end
$$;

CREATE TABLE public.opening_signals (
    source text NOT NULL,
    external_id text NOT NULL,
    title text,
    url text,
    first_seen_at timestamp with time zone DEFAULT transaction_timestamp() NOT NULL,
    organization text,
    location text,
    posted_at timestamp with time zone,
    payload jsonb,
    content_hash bytea,
    changed_at timestamp with time zone,
    closed_at timestamp with time zone,
    last_seen_at timestamp with time zone,
    CONSTRAINT content_hash_is_a_sha256 CHECK ((octet_length(content_hash) = 32))
);

COMMENT ON COLUMN public.opening_signals.content_hash IS 'of all that the feed says of the opening; null: from before this column, the next merge writes it';

COMMENT ON COLUMN public.opening_signals.changed_at IS 'when its content last changed, or it returned after it was closed; null: not since the opening was first seen';

COMMENT ON COLUMN public.opening_signals.closed_at IS 'when its source no longer had it; null: open';

COMMENT ON COLUMN public.opening_signals.last_seen_at IS 'when it was last there, of a closed opening; null: see the view openings';

CREATE VIEW public.closed_openings AS
 SELECT o.source,
    o.external_id,
    o.title,
    o.organization,
    o.location,
    o.url,
    o.posted_at,
    o.first_seen_at,
    o.changed_at,
    COALESCE(o.last_seen_at, o.changed_at, o.first_seen_at) AS last_seen_at,
    o.closed_at
   FROM public.opening_signals o
  WHERE (o.closed_at IS NOT NULL)
  ORDER BY o.closed_at DESC, o.source, o.external_id;

CREATE TABLE public.cronlease_migrations (
    name text NOT NULL,
    hash text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE public.refresh_runs (
    request_id uuid NOT NULL,
    function_name text NOT NULL,
    action text NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    fence bigint NOT NULL,
    trigger text NOT NULL,
    job_name text,
    schedule_time text,
    parent_request_id uuid,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    status text DEFAULT 'running'::text NOT NULL,
    error text,
    fetched bigint,
    inserted bigint,
    updated bigint,
    unchanged bigint,
    closed bigint,
    next_run_at timestamp with time zone,
    CONSTRAINT a_closed_run_has_an_end CHECK (((status = 'running'::text) = (finished_at IS NULL))),
    CONSTRAINT status_is_known CHECK ((status = ANY (ARRAY['running'::text, 'success'::text, 'partial'::text, 'failed'::text, 'interrupted'::text, 'abandoned'::text])))
)
WITH (fillfactor='80');

COMMENT ON COLUMN public.refresh_runs.schedule_time IS 'as the scheduler sent it; never compared, never trusted';

CREATE VIEW public.live_runs AS
 SELECT r.request_id
   FROM public.refresh_runs r
  WHERE (r.status = 'running'::text);

CREATE TABLE public.opening_sources (
    name text NOT NULL,
    definition text,
    items bigint,
    last_ok_at timestamp with time zone,
    last_seen_at timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    last_error text,
    etag text,
    last_modified text,
    next_fetch_at timestamp with time zone,
    CONSTRAINT failures_not_negative CHECK ((failures >= 0)),
    CONSTRAINT only_a_failing_source_waits CHECK (((next_fetch_at IS NULL) OR (failures > 0)))
);

COMMENT ON TABLE public.opening_sources IS 'one row per source that was ever asked; written only by the run that holds the lease';

COMMENT ON COLUMN public.opening_sources.definition IS 'hash of its entry in the sources file: what was remembered of another entry is not used for this one';

COMMENT ON COLUMN public.opening_sources.items IS 'how many openings its last complete answer had';

COMMENT ON COLUMN public.opening_sources.last_ok_at IS 'when it last answered to the end, or that nothing had changed';

COMMENT ON COLUMN public.opening_sources.last_seen_at IS 'when its open openings were last known to be there';

COMMENT ON COLUMN public.opening_sources.failures IS 'failed fetches in a row';

COMMENT ON COLUMN public.opening_sources.next_fetch_at IS 'not asked before; null: asked by every run';

CREATE VIEW public.new_openings AS
 SELECT o.source,
    o.external_id,
    o.title,
    o.organization,
    o.location,
    o.url,
    o.posted_at,
    o.first_seen_at,
    o.changed_at,
    COALESCE(s.last_seen_at, o.changed_at, o.first_seen_at) AS last_seen_at
   FROM (public.opening_signals o
     LEFT JOIN public.opening_sources s ON ((s.name = o.source)))
  WHERE ((o.closed_at IS NULL) AND (o.first_seen_at > (now() - '7 days'::interval)))
  ORDER BY o.first_seen_at DESC, o.source, o.external_id;

CREATE TABLE public.opening_pages (
    source text NOT NULL,
    digest bytea NOT NULL,
    openings integer NOT NULL,
    fingerprint numeric NOT NULL
);

COMMENT ON TABLE public.opening_pages IS 'the pages of each source that together are just its open openings. True only while their openings and fingerprints add up to those of opening_signals: whoever writes there need not know of this table';

COMMENT ON COLUMN public.opening_pages.digest IS 'of the keys and content hashes of the page as it came';

COMMENT ON COLUMN public.opening_pages.fingerprint IS 'the sum of opening_fingerprint over the page';

CREATE UNLOGGED TABLE public.opening_staging (
    request_id uuid NOT NULL,
    source text NOT NULL,
    "position" bigint NOT NULL,
    external_id text NOT NULL,
    title text,
    organization text,
    location text,
    url text,
    posted_at timestamp with time zone,
    payload jsonb,
    content_hash bytea NOT NULL
);

COMMENT ON TABLE public.opening_staging IS 'what live runs have fetched and not merged yet; emptied by the merge, or by a later run when one died';

CREATE UNLOGGED TABLE public.opening_staging_pages (
    request_id uuid NOT NULL,
    source text NOT NULL,
    "position" bigint NOT NULL,
    external_ids text[] NOT NULL,
    differing integer NOT NULL,
    digest bytea,
    openings integer,
    fingerprint numeric,
    trusted boolean
);
ALTER TABLE ONLY public.opening_staging_pages ALTER COLUMN external_ids SET STORAGE EXTERNAL;

COMMENT ON TABLE public.opening_staging_pages IS 'what live runs have seen: page by page the keys, and how many of their openings are in opening_staging, at the same position, because they are not stored just so';

COMMENT ON COLUMN public.opening_staging_pages.openings IS 'how many openings its keys are: one that was on the page twice is one';

COMMENT ON COLUMN public.opening_staging_pages.trusted IS 'of the first page of a source: whether its opening_pages were true when it came';

CREATE VIEW public.openings AS
 SELECT o.source,
    o.external_id,
    o.title,
    o.organization,
    o.location,
    o.url,
    o.posted_at,
    o.payload,
    o.content_hash,
    o.first_seen_at,
    o.changed_at,
    o.closed_at,
    COALESCE(o.last_seen_at, s.last_seen_at, o.changed_at, o.first_seen_at) AS last_seen_at,
    (o.closed_at IS NULL) AS open
   FROM (public.opening_signals o
     LEFT JOIN public.opening_sources s ON ((s.name = o.source)));

CREATE VIEW public.refresh_rows AS
 SELECT s.function_name,
    s.locked_by,
    s.locked_until,
    s.next_run_at,
    s.*::public.refresh_schedule AS schedule
   FROM public.refresh_schedule s;

ALTER TABLE public.refresh_schedule ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.refresh_schedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.refresh_status AS
 SELECT s.function_name,
        CASE
            WHEN (s.completed_at IS NOT NULL) THEN 'completed'::text
            WHEN (s.locked_until > moment.at) THEN 'dispatching'::text
            WHEN (s.locked_until IS NOT NULL) THEN 'stale'::text
            WHEN (s.paused_at IS NOT NULL) THEN 'paused'::text
            ELSE 'pending'::text
        END AS state,
    ((s.completed_at IS NULL) AND (s.paused_at IS NULL) AND COALESCE((s.next_run_at <= moment.at), true) AND COALESCE((s.locked_until <= moment.at), true)) AS due,
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
    s.paused_reason
   FROM (public.refresh_schedule s
     CROSS JOIN ( SELECT clock_timestamp() AS at) moment);

INSERT INTO public.cronlease_migrations VALUES ('0000_cronlease_migrations', '38e6719b5f5d03547abb05610ed6ab6736dfd9148dc2873264a75fffd20e05f6', '2026-11-16 17:19:28.07899+00');
INSERT INTO public.cronlease_migrations VALUES ('0001_refresh_schedule', '113fcd28591925953060b2fdc7d22aa267ef83d1c17b2ef5dea4c0abaab15749', '2026-11-16 17:19:28.106263+00');
INSERT INTO public.cronlease_migrations VALUES ('0002_refresh_runs', '078398bed41dea4fbbe9094c3f7efd8a1e01217cc9e3e87ac8e711f7a3ec9cbf', '2026-11-16 17:19:28.11495+00');
INSERT INTO public.cronlease_migrations VALUES ('0003_opening_signals', 'cfec334d81feba4f6dd8fb3abd81f7bc01bf8fba84cf50a419ae77354d7e1a34', '2026-11-16 17:19:28.126938+00');
INSERT INTO public.cronlease_migrations VALUES ('0004_opening_sources', '0ed57222f622933eb838771201259f499217e8cabd7e790cf11320b93376a779', '2026-11-16 17:19:28.135254+00');
INSERT INTO public.cronlease_migrations VALUES ('0005_opening_pages', 'b8e742c9d831814fda8415b705e5a976541acfd7fd493f0c662ac90b720aa7ac', '2026-11-16 17:19:28.137368+00');
INSERT INTO public.cronlease_migrations VALUES ('0006_due_by_action', '59783a4e5ff3abc53a6e41a6c930cc7728ca5055ba1046b53db8230e8561a678', '2026-11-16 17:19:28.143924+00');
INSERT INTO public.cronlease_migrations VALUES ('0007_keep_first_seen_at', '7e9f8264911da20919c276c03839f0b0b81188a037092b020e0212a8bd8bf921', '2026-11-16 17:19:28.144359+00');

INSERT INTO public.opening_signals VALUES ('acme', '1', 'Engineer', 'https://example.com/1', '2026-11-16 17:19:28.291939+00', NULL, NULL, NULL, '{"a": 1}', '\xca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb', NULL, NULL, NULL);
INSERT INTO public.opening_signals VALUES ('acme', '2', 'Cook', NULL, '2026-11-16 17:19:28.291939+00', NULL, NULL, NULL, NULL, '\x3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d', NULL, NULL, NULL);

INSERT INTO public.opening_sources VALUES ('acme', 'x', 2, '2026-11-16 17:19:28.294006+00', '2026-11-16 17:19:28.294006+00', 0, NULL, NULL, NULL, NULL);

INSERT INTO public.refresh_runs VALUES ('00000000-0000-4000-8000-000000000004', 'running', 'running', '{}', 1, 'manual', NULL, NULL, NULL, '2026-11-16 17:19:28.291356+00', NULL, 'running', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.refresh_runs VALUES ('00000000-0000-4000-8000-000000000001', 'refresh_opening_signals', 'refresh_opening_signals', '{}', 1, 'manual', NULL, NULL, NULL, '2026-11-16 17:19:28.285098+00', '2026-11-16 17:19:28.296142+00', 'success', NULL, 2, 2, NULL, NULL, NULL, '2026-11-16 17:29:28.296142+00');
INSERT INTO public.refresh_runs VALUES ('00000000-0000-4000-8000-000000000002', 'failing', 'failing', '{}', 1, 'manual', NULL, NULL, NULL, '2026-11-16 17:19:28.286752+00', '2026-11-16 17:19:28.299077+00', 'failed', 'no luck', NULL, NULL, NULL, NULL, NULL, '2026-11-16 17:49:28.299077+00');
INSERT INTO public.refresh_runs VALUES ('00000000-0000-4000-8000-000000000003', 'once', 'mail', '{"to": 7}', 1, 'manual', NULL, NULL, NULL, '2026-11-16 17:19:28.287694+00', '2026-11-16 17:19:28.299687+00', 'partial', NULL, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO public.refresh_schedule OVERRIDING SYSTEM VALUE VALUES ('nightly', '2026-11-16 18:19:28.283406+00', NULL, NULL, 6, 'clean', '{}', '10m..15m', false, NULL, NULL, 0, 0, 0, NULL, NULL, 0, NULL, NULL);
INSERT INTO public.refresh_schedule OVERRIDING SYSTEM VALUE VALUES ('running', NULL, NULL, NULL, 3, 'running', '{}', NULL, false, NULL, NULL, 0, 0, 0, '2036-11-13 17:19:28.291356+00', '00000000-0000-4000-8000-000000000004', 1, NULL, NULL);
INSERT INTO public.refresh_schedule OVERRIDING SYSTEM VALUE VALUES ('refresh_opening_signals', '2026-11-16 17:29:28.296142+00', '2026-11-16 17:19:28.296142+00', 'success', 1, 'refresh_opening_signals', '{}', NULL, false, NULL, NULL, 0, 0, 1, NULL, NULL, 1, NULL, NULL);
INSERT INTO public.refresh_schedule OVERRIDING SYSTEM VALUE VALUES ('failing', '2026-11-16 17:49:28.299077+00', '2026-11-16 17:19:28.299077+00', 'failed', 2, 'failing', '{}', NULL, false, NULL, 'no luck', 1, 0, 1, NULL, NULL, 1, NULL, NULL);
INSERT INTO public.refresh_schedule OVERRIDING SYSTEM VALUE VALUES ('once', NULL, '2026-11-16 17:19:28.299687+00', 'partial', 5, 'mail', '{"to": 7}', NULL, true, '2026-11-16 17:19:28.299687+00', NULL, 0, 0, 1, NULL, NULL, 1, NULL, NULL);
INSERT INTO public.refresh_schedule OVERRIDING SYSTEM VALUE VALUES ('paused', NULL, NULL, NULL, 4, 'paused', '{}', NULL, false, NULL, NULL, 0, 0, 0, NULL, NULL, 0, '2026-11-16 17:19:28.300445+00', 'holidays');

SELECT pg_catalog.setval('public.refresh_schedule_id_seq', 6, true);

ALTER TABLE ONLY public.cronlease_migrations
    ADD CONSTRAINT cronlease_migrations_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.refresh_schedule
    ADD CONSTRAINT id_is_unique UNIQUE (id);

ALTER TABLE ONLY public.opening_pages
    ADD CONSTRAINT opening_pages_pkey PRIMARY KEY (source, digest);

ALTER TABLE ONLY public.opening_signals
    ADD CONSTRAINT opening_signals_pkey PRIMARY KEY (source, external_id);

ALTER TABLE ONLY public.opening_sources
    ADD CONSTRAINT opening_sources_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.refresh_runs
    ADD CONSTRAINT refresh_runs_pkey PRIMARY KEY (request_id);

ALTER TABLE ONLY public.refresh_schedule
    ADD CONSTRAINT refresh_schedule_pkey PRIMARY KEY (function_name);

CREATE INDEX refresh_runs_history ON public.refresh_runs USING btree (function_name, fence);

CREATE INDEX refresh_runs_newest ON public.refresh_runs USING btree (started_at);

CREATE INDEX refresh_schedule_completed ON public.refresh_schedule USING btree (completed_at) WHERE (completed_at IS NOT NULL);

CREATE INDEX refresh_schedule_due ON public.refresh_schedule USING btree (next_run_at NULLS FIRST) WHERE ((completed_at IS NULL) AND (paused_at IS NULL));

CREATE INDEX refresh_schedule_due_by_action ON public.refresh_schedule USING btree (action, COALESCE(next_run_at, '-infinity'::timestamp with time zone), id) WHERE ((completed_at IS NULL) AND (paused_at IS NULL));

CREATE INDEX refresh_schedule_lock_expiry ON public.refresh_schedule USING btree (locked_until) WHERE (locked_until IS NOT NULL);

CREATE INDEX refresh_schedule_paused ON public.refresh_schedule USING btree (paused_at) WHERE (paused_at IS NOT NULL);

CREATE TRIGGER first_seen_at_is_set_by_the_database BEFORE INSERT ON public.opening_signals FOR EACH ROW WHEN ((new.first_seen_at IS DISTINCT FROM transaction_timestamp())) EXECUTE FUNCTION public.keep_first_seen_at();

CREATE TRIGGER first_seen_at_never_changes BEFORE UPDATE ON public.opening_signals FOR EACH ROW WHEN ((new.first_seen_at IS DISTINCT FROM old.first_seen_at)) EXECUTE FUNCTION public.keep_first_seen_at();

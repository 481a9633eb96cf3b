-- Creates a schedule of an action: a one-shot, or a recurring one with a band, a beat or a cron. A name that is taken
-- is an error unless it may be replaced; then the row keeps its history, fence and pause, and all else is as passed
-- now. A cron has no next run time until a process that can compute one has seen it.
create or replace function public.schedule_action(
  p_function_name text,
  p_action text,
  p_args jsonb default '{}',
  p_delay interval default null,
  p_at timestamptz default null,
  p_every text default null,
  p_replace boolean default false,
  p_cron text default null,
  p_time_zone text default null,
  p_missed text default null,
  p_late interval default null,
  p_attempts integer default null,
  p_late_alert interval default null,
  p_pause_after integer default null,
  p_probe interval default null,
  out created boolean,
  out next_run_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_turned text := split_part(p_every, '..', 2) || '..' || split_part(p_every, '..', 1);
  v_mistake text := case
    when coalesce(btrim(p_function_name), '') = '' then 'a schedule needs a name'
    when coalesce(btrim(p_action), '') = '' then 'a schedule needs an action'
    when octet_length(p_function_name) > 1000 then 'the name of a schedule has at most 1000 bytes'
    when octet_length(p_action) > 1000 then 'the name of an action has at most 1000 bytes'
    when p_at is not null and p_delay is not null then 'give either a time or a delay, not both'
    when p_at not between '0001-01-02' and '9999-12-30' then format('%s is not a time to run at', p_at)
    when p_delay < interval '0' then format('a delay must not be negative, as %s is', p_delay)
    when p_delay > interval '36500 days' then format('a delay is at most 36500 days, and %s is longer', p_delay)
    when p_every is not null and p_cron is not null then 'give either every or a cron, not both'
    when p_every = 'hit' then
      '"hit" is for a function with a trigger of its own: a schedule row needs a cadence such as 10m..15m'
    when not public.is_cron(p_cron) then
      format('"%s" is not a cron expression: write five fields, such as 0 9 * * 1-5', p_cron)
    when p_cron is not null and (p_at is not null or p_delay is not null) then
      'a cron itself says when it is due: leave out the time and the delay'
    when p_time_zone is not null and p_cron is null then 'a time zone is for a cron: give p_cron, too'
    when p_missed not in ('once', 'skip') then format('missed is once or skip, not "%s"', p_missed)
    when coalesce(p_missed = 'skip', false) <> (p_late is not null) then
      'missed skip and late go together: give both or neither'
    when p_late <= interval '0' then format('late must be longer than zero, not %s', p_late)
    when p_attempts < 1 then format('a slot has at least one attempt, not %s', p_attempts)
    when p_late_alert <= interval '0' then format('late_alert must be longer than zero, not %s', p_late_alert)
    when p_pause_after < 1 then format('a breaker opens after at least one failed run, not %s', p_pause_after)
    when p_probe <= interval '0' then format('probe must be longer than zero, not %s', p_probe)
    when position('..' in p_every) > 0 and p_missed = 'skip' then
      format('only a beat or a cron has slots to skip, and %s has none: leave out missed and late', p_every)
    when position('..' in p_every) > 0 and p_attempts is not null then
      format('only a slot of a beat or a cron has attempts, and %s has none: leave them out', p_every)
    when not public.is_band(p_every) and public.is_band(v_turned) then
      format('"%s" is the wrong way round: write %s', p_every, v_turned)
    when not public.is_band(p_every) then format('"%s" is not a cadence: write 10m, or 10m..15m', p_every)
    else public.args_mistake(p_args => p_args)
  end;
  v_fence bigint;
  v_now timestamptz := clock_timestamp();
  v_next timestamptz := case when p_cron is null then coalesce(p_at, v_now + coalesce(p_delay, interval '0')) end;
  -- A beat is counted from its first run.
  v_slot timestamptz := case when position('..' in p_every) = 0 then v_next end;
  v_late_at timestamptz;
begin
  if v_mistake is not null then
    raise exception '%', v_mistake using errcode = '22023';
  end if;
  begin
    perform clock_timestamp() at time zone p_time_zone;
  exception
    when invalid_parameter_value then
      raise exception '"%" is not a time zone: write a name such as Europe/Berlin', p_time_zone using errcode = '22023';
  end;
  v_late_at := public.refresh_late_at(v_next, p_every, p_every is null and p_cron is null, p_late_alert);
  -- A hit that ensures the same row learns immediately that it is being created, and does not wait for us.
  perform pg_try_advisory_xact_lock(public.refresh_lock_key('create'), hashtext(p_function_name));

  loop
    if not exists (select from public.refresh_schedule s where s.function_name = p_function_name) then
      insert into public.refresh_schedule as s (
        function_name, action, args, every, cron, time_zone, missed, late, attempts, once, next_run_at, slot_at,
        planned_from, planned_at, late_at, late_alert, pause_after, probe, fence
      )
      select
        p_function_name,
        p_action,
        coalesce(p_args, '{}'),
        p_every,
        p_cron,
        p_time_zone,
        p_missed,
        p_late,
        p_attempts,
        p_every is null and p_cron is null,
        v_next,
        v_slot,
        p_every,
        case when p_every is not null then v_now end,
        v_late_at,
        p_late_alert,
        p_pause_after,
        p_probe,
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
          cron = p_cron,
          time_zone = p_time_zone,
          missed = p_missed,
          late = p_late,
          attempts = p_attempts,
          once = p_every is null and p_cron is null,
          next_run_at = v_next,
          slot_at = v_slot,
          last_slot_at = null,
          last_success_slot_at = null,
          attempt = 0,
          planned_from = p_every,
          planned_at = case when p_every is not null then v_now end,
          planned_before = null,
          saved = null,
          late_at = v_late_at,
          late_alert = p_late_alert,
          pause_after = p_pause_after,
          probe = p_probe,
          breaker_until = null,
          incident_at = null,
          told = '{}',
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
    -- Neither: somebody else has just created the row, or deleted it. Try again.
    exit when created is not null;
  end loop;
end
$$;

-- Creates a schedule of an action: a one-shot, or with a band of time a recurring one. A name that is taken is an
-- error unless it may be replaced; then the row keeps its history, fence and pause, and all else is as said now.
create or replace function public.schedule_action(
  p_function_name text,
  p_action text,
  p_args jsonb default '{}',
  p_delay interval default null,
  p_at timestamptz default null,
  p_every text default null,
  p_replace boolean default false,
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
    else public.args_mistake(p_args => p_args)
  end;
  v_fence bigint;
begin
  if v_mistake is not null then
    raise exception '%', v_mistake using errcode = '22023';
  end if;
  -- One who ensures the same row is told at once that it is being created, and need not wait for us.
  perform pg_try_advisory_xact_lock(public.refresh_lock_key('create'), hashtext(p_function_name));

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

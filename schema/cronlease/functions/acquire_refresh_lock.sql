-- Claims the row for one run, or says why not. A skip is decided by a plain read: it takes no lock and writes
-- nothing. Nor does it change role or search_path, which every skip would pay for: the row is read through a view,
-- with the rights of its owner, and take_refresh_lock makes the claim.
create or replace function public.acquire_refresh_lock(
  p_function_name text,
  p_request_id uuid,
  p_lease interval default '5 minutes',
  p_force boolean default false,
  p_trigger text default 'manual',
  p_job_name text default null,
  p_schedule_time text default null,
  p_args jsonb default null,
  p_backoff interval default '30 minutes',
  p_parent_request_id uuid default null,
  p_actions text[] default null,
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
  out failures integer
)
language plpgsql
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_overdue boolean;
  v_stuck text;
begin
  select
    false,
    public.refresh_skip_reason(
      s.schedule, p_request_id, p_force, v_now, p_cadence, p_attempts, p_late, p_early
    ),
    s.locked_by,
    -- Clients cannot read an infinite time: forever is returned as null.
    nullif(s.locked_until, 'infinity'),
    nullif(public.refresh_next_at(s.schedule, v_now), 'infinity')
  into acquired, reason, locked_by, locked_until, next_run_at
  from public.refresh_rows s
  where s.function_name = p_function_name;
  if reason is null then
    select t.*
    into acquired, reason, fence, locked_by, locked_until, next_run_at, action, args, every, failures, v_overdue
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
      p_actions => p_actions,
      p_max_run => p_max_run,
      p_cadence => p_cadence,
      p_attempts => p_attempts,
      p_late => p_late,
      p_early => p_early,
      p_delivery => p_delivery,
      p_delivery_at => p_delivery_at
    ) t;
    if v_overdue then
      -- Its client stands still. This hit answers locked all the same; the next one takes over.
      v_stuck := public.end_refresh_holder(p_function_name => p_function_name, p_locked_by => locked_by);
      if v_stuck is not null then
        raise warning '%', v_stuck using errcode = 'CL005';
      end if;
    end if;
  end if;
end
$$;

-- Claims the oldest due row of these actions for one run, or says when there will be one: take_due_refresh does. With
-- the rights of the caller it ends the backend of a frozen run that was in the way; the next claim takes that row.
create or replace function public.claim_due_refresh(
  p_request_id uuid,
  p_lease interval default '5 minutes',
  p_actions text[] default null,
  p_leases interval[] default null,
  p_backoff interval default '30 minutes',
  p_backoffs interval[] default null,
  p_trigger text default 'run_due',
  p_parent_request_id uuid default null,
  p_max_run interval default null,
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
  out due_in interval
)
language plpgsql
as $$
declare
  v_overdue_name text;
  v_overdue_holder text;
  v_stuck text;
begin
  select t.*
  into
    acquired, reason, fence, locked_by, locked_until, next_run_at, action, args, every, failures,
    function_name, due_in, v_overdue_name, v_overdue_holder
  from public.take_due_refresh(
    p_request_id => p_request_id,
    p_lease => p_lease,
    p_actions => p_actions,
    p_leases => p_leases,
    p_backoff => p_backoff,
    p_backoffs => p_backoffs,
    p_trigger => p_trigger,
    p_parent_request_id => p_parent_request_id,
    p_max_run => p_max_run,
    p_cadences => p_cadences,
    p_most_attempts => p_most_attempts,
    p_lates => p_lates
  ) t;
  if v_overdue_name is not null then
    v_stuck := public.end_refresh_holder(p_function_name => v_overdue_name, p_locked_by => v_overdue_holder);
    if v_stuck is not null then
      raise warning '%', v_stuck using errcode = 'CL005';
    end if;
  end if;
end
$$;

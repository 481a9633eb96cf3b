-- Claims the oldest due rows of these actions, at most one for each request and each with its own lease, fence and
-- history, or returns one row that says when there will be one: take_due_refreshes does. With the rights of the
-- caller it ends the backend of a frozen run that was in the way; the next claim takes that row.
create or replace function public.claim_due_refreshes(
  p_request_ids uuid[],
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
  p_in_doubt boolean default true,
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
  out details jsonb
)
returns setof record
language plpgsql
as $$
declare
  v_took record;
  v_stuck text;
begin
  select t.* into v_took
  from public.take_due_refreshes(
    p_request_ids => p_request_ids,
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
    p_lates => p_lates,
    p_in_doubt => p_in_doubt
  ) t;
  if v_took.overdue_name is not null then
    v_stuck := public.end_refresh_holder(p_function_name => v_took.overdue_name, p_locked_by => v_took.overdue_holder);
    if v_stuck is not null then
      raise warning '%', v_stuck using errcode = 'CL005';
    end if;
  end if;
  if v_took.claims = '[]' then
    acquired := false;
    reason := v_took.reason;
    next_run_at := v_took.next_run_at;
    due_in := v_took.due_in;
    return next;
    return;
  end if;
  return query
  select
    true, null::text, c.fence, c.request_id, c.locked_until, c.next_run_at, c.action, c.args, c.every, c.failures,
    c.function_name, null::interval, c.details
  from jsonb_to_recordset(v_took.claims) as c (
    request_id text,
    fence bigint,
    locked_until timestamptz,
    next_run_at timestamptz,
    action text,
    args jsonb,
    every text,
    failures integer,
    function_name text,
    details jsonb
  );
end
$$;

-- Claims the oldest due row of these actions for one run, or says when there will be one: claim_due_refreshes for one
-- request.
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
language sql
as $$
  select
    c.acquired, c.reason, c.fence, c.locked_by, c.locked_until, c.next_run_at, c.action, c.args, c.every, c.failures,
    c.function_name, c.due_in
  from public.claim_due_refreshes(
    p_request_ids => array[p_request_id],
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
  ) c
$$;

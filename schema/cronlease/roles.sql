-- Optional: two roles that may do what they are meant for and nothing else. Applied by `cronlease migrate --roles`, or
-- by hand after migrate, by the owner of the schema; from then on migrate keeps it up to date. The owner is the
-- operator: nobody else pauses, resumes, deletes, unlocks or recovers schedules. Then, for the role that a deployment
-- connects as:
--   grant cronlease_runner to the_function;
--   grant insert, update on prices to cronlease_runner;  -- the tables of a job of your own
-- tests/schema/rights.py lists, statement by statement, what each may do.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['cronlease_runner', 'cronlease_reader'] loop
    begin
      if not exists (select from pg_catalog.pg_roles r where r.rolname = v_role) then
        execute format('create role %I nologin', v_role);
      end if;
    exception
      -- Another database of this server has just made it.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        raise exception using
          errcode = '0P000',
          message = 'this role may not create roles: let one that may run'
            || ' `create role cronlease_runner nologin; create role cronlease_reader nologin`, then try again';
    end;
  end loop;
end
$$;

-- The default of databases made by PostgreSQL 15 and newer.
revoke create on schema public from public;
grant usage on schema public to cronlease_runner, cronlease_reader;

-- A hit, the dispatcher, and GET /status. The functions do what the runner itself may not: it has no right to
-- refresh_schedule and refresh_runs.
grant execute on function
  public.acquire_refresh_lock,
  public.take_refresh_lock,
  public.refresh_skip_reason,
  public.refresh_cadence,
  public.refresh_early,
  public.refresh_is_spent,
  public.refresh_needs_plan,
  public.refresh_plan,
  public.refresh_details,
  public.plan_refresh,
  public.serve_refresh_slot,
  public.unplanned_refreshes,
  public.refresh_next_at,
  public.claim_refresh_alerts,
  public.settle_refresh_alerts,
  public.read_refresh_health,
  public.claim_due_refresh,
  public.claim_due_refreshes,
  public.take_due_refreshes,
  public.end_refresh_holder,
  public.refresh_lock_key,
  public.due_refreshes,
  public.ensure_schedule,
  public.assert_lease,
  public.renew_refresh_lock,
  public.renew_refresh_locks,
  public.finish_refresh_run,
  public.finish_refresh_runs,
  public.release_refresh_lock,
  public.prune_refresh_history,
  public.schedule_action,
  public.read_refresh_status,
  public.read_refresh_page,
  public.read_refresh_schedule,
  public.record_refresh_operation
to cronlease_runner;
grant select
  on public.refresh_rows, public.refresh_holders, public.refresh_prepared, public.live_runs, public.abandoned_runs
  to cronlease_runner;

grant select on public.refresh_status to cronlease_reader;
grant execute on function
  public.read_refresh_status,
  public.read_refresh_page,
  public.read_refresh_schedule
to cronlease_reader;

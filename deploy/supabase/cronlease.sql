-- cronlease on Supabase: the database's own cron hits the function, and nobody but service_role reaches our tables
-- through the REST API. Run it as postgres, after `cronlease migrate` and again after every later one: it changes only
-- what is ours. It is for the schema public: the REST API shows another one (CRONLEASE_SCHEMA) only if you name it
-- among the exposed schemas, so there only the schedules at the end are needed.
--
-- Once, before that: store where the function listens, and its token (CRONLEASE_AUTH=token, CRONLEASE_TOKEN).
--   select vault.create_secret('https://cronlease.example', 'cronlease_url');
--   select vault.create_secret('the token', 'cronlease_token');

create extension if not exists pg_cron;
create extension if not exists pg_net;

-- Supabase grants whatever is made in public to anon, authenticated and service_role, and its REST API speaks as them.
-- migrate takes what it makes from all of them; here service_role, which only servers use, gets it back.
do $$
declare
  v_tables constant text[] := array[
    'cronlease_migrations', 'refresh_schedule', 'refresh_runs', 'refresh_alerts', 'refresh_operations',
    'opening_changes', 'opening_pages', 'opening_signals', 'opening_sources', 'opening_staging',
    'opening_staging_pages'
  ];
  v_views constant text[] := array[
    'refresh_status', 'refresh_rows', 'refresh_holders', 'refresh_prepared', 'live_runs', 'abandoned_runs', 'openings',
    'new_openings', 'closed_openings'
  ];
  v_functions constant text[] := array[
    'abandon_refresh_run', 'acquire_refresh_lock', 'args_mistake', 'assert_lease', 'claim_due_refresh',
    'delete_refresh', 'due_refreshes', 'end_refresh_holder', 'ensure_schedule', 'finish_refresh_run',
    'hold_idle_refresh', 'is_band', 'keep_first_seen_at', 'opening_fingerprint', 'pause_refresh',
    'prune_refresh_history',
    'read_refresh_status', 'readable_args', 'recover_stale_dispatches', 'refresh_lock_key', 'refresh_skip_reason',
    'release_refresh_lock', 'renew_refresh_lock', 'resume_refresh', 'schedule_action', 'take_refresh_lock',
    'unlock_refresh',
    'is_cron', 'plan_refresh', 'refresh_cadence', 'refresh_details', 'refresh_early', 'refresh_is_spent',
    'refresh_needs_plan', 'refresh_plan', 'refresh_was_delivered', 'serve_refresh_slot', 'unplanned_refreshes',
    'claim_refresh_alerts', 'read_refresh_health', 'refresh_due_closed', 'refresh_is_late', 'refresh_late_at',
    'refresh_next_at', 'settle_refresh_alerts', 'tell_refresh_abandoned', 'tell_refresh_end', 'write_refresh_alert',
    'read_refresh_page', 'read_refresh_schedule', 'record_refresh_operation', 'refresh_health',
    'claim_due_refreshes', 'end_refresh_runs', 'finish_refresh_runs', 'grant_refresh_locks', 'held_refreshes',
    'refresh_after_end', 'renew_refresh_locks', 'take_due_refreshes', 'take_refresh_locks'
  ];
  v_name text;
  v_role text;
begin
  -- Only those that exist: the tables of openings are made only for the job that has them.
  for v_name in
    select c.relname::text
    from pg_catalog.pg_class c
    where c.relnamespace = 'public'::regnamespace
      and c.relname = any (v_tables || v_views)
  loop
    execute format('revoke all on table public.%I from public, anon, authenticated', v_name);
    execute format('grant all on table public.%I to service_role', v_name);
  end loop;
  for v_name in
    select p.oid::regprocedure::text
    from pg_catalog.pg_proc p
    where p.pronamespace = 'public'::regnamespace
      and p.proname = any (v_functions)
  loop
    execute format('revoke all on function %s from public, anon, authenticated', v_name);
    execute format('grant execute on function %s to service_role', v_name);
  end loop;
  -- A second barrier, in case somebody grants a table again; a view would still show what its owner sees. The owner
  -- and service_role are not bound by it.
  for v_name in
    select c.relname::text
    from pg_catalog.pg_class c
    where c.relnamespace = 'public'::regnamespace
      and c.relname = any (v_tables)
  loop
    execute format('alter table public.%I enable row level security', v_name);
    for v_role in
      select r.rolname
      from pg_catalog.pg_roles r
      where r.rolname in ('cronlease_runner', 'cronlease_reader')
    loop
      -- The grants of such a role say what it may do; this policy only lets them take effect.
      execute format('drop policy if exists %I on public.%I', v_role, v_name);
      execute format('create policy %I on public.%I to %I using (true) with check (true)', v_role, v_name, v_role);
    end loop;
  end loop;
end
$$;

-- Without a timeout pg_net gives up after 5 s and counts every real run as a failure. It waits in the background and
-- holds none of your connections. The schedules are in UTC.
select cron.schedule(
  'cronlease-refresh-opening-signals',
  '*/5 * * * *',
  $$
    select net.http_post(
      url := (select s.decrypted_secret from vault.decrypted_secrets s where s.name = 'cronlease_url') || '/',
      headers := jsonb_build_object(
        'Content-Type', 'application/json',
        'Authorization', 'Bearer '
          || (select s.decrypted_secret from vault.decrypted_secrets s where s.name = 'cronlease_token')
      ),
      body := '{}'::jsonb,
      timeout_milliseconds := 320000
    )
  $$
);

select cron.schedule(
  'cronlease-run-due',
  '3-58/5 * * * *',
  $$
    select net.http_post(
      url := (select s.decrypted_secret from vault.decrypted_secrets s where s.name = 'cronlease_url') || '/run-due',
      headers := jsonb_build_object(
        'Content-Type', 'application/json',
        'Authorization', 'Bearer '
          || (select s.decrypted_secret from vault.decrypted_secrets s where s.name = 'cronlease_token')
      ),
      body := '{}'::jsonb,
      timeout_milliseconds := 320000
    )
  $$
);

-- pg_cron keeps a row for every hit forever.
select cron.schedule(
  'cronlease-forget-hits',
  '17 4 * * *',
  $$
    delete from cron.job_run_details d
    using cron.job j
    where d.jobid = j.jobid
      and j.jobname like 'cronlease-%'
      and d.end_time < now() - interval '7 days'
  $$
);

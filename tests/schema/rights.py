"""What each role may do, statement by statement: the documentation of schema/*/roles.sql.

Two schedules are there, `free` and `held`; HELD is the request that holds the latter. Whatever stands under a role is
refused to the others and to whoever has no role of ours, except that ANYBODY may do what PostgreSQL lets everyone do.
"""

HELD = "11111111-1111-1111-1111-111111111111"
THEIRS = f"p_function_name => 'held', p_request_id => '{HELD}'"
NEW = "p_function_name => 'free', p_request_id => gen_random_uuid()"

RUNNER = (
    # A hit and a run, from the claim to the end.
    f"select public.acquire_refresh_lock({NEW})",
    f"select public.acquire_refresh_lock({THEIRS}, p_force => true)",
    "select public.claim_due_refresh(p_request_id => gen_random_uuid())",
    "select public.claim_due_refreshes(p_request_ids => array[gen_random_uuid(), gen_random_uuid()])",
    "select public.due_refreshes()",
    "select public.ensure_schedule(p_function_name => 'new')",
    f"select public.assert_lease({THEIRS}, p_fence => 1)",
    f"select public.renew_refresh_lock({THEIRS}, p_fence => 1, p_lease => '5 minutes')",
    f"select public.finish_refresh_run({THEIRS}, p_fence => 1, p_status => 'success')",
    f"select public.renew_refresh_locks('{{held}}', '{{{HELD}}}', '{{1}}', '{{5m}}')",
    'select public.finish_refresh_runs(\'[{"function_name": "held", "status": "success"}]\')',
    f"select public.release_refresh_lock({THEIRS})",
    "select public.prune_refresh_history()",
    # What acquire_refresh_lock needs of its caller.
    "select function_name, (schedule).args from public.refresh_rows",
    "select public.refresh_skip_reason(s.schedule, gen_random_uuid(), false, now()) from public.refresh_rows s",
    "select public.refresh_cadence(s.schedule), public.refresh_early('6h') from public.refresh_rows s",
    "select public.refresh_is_spent(s.schedule, null, null, null, now()) from public.refresh_rows s",
    "select public.refresh_needs_plan(s.schedule, null, null, null, now()) from public.refresh_rows s",
    "select public.refresh_plan(s.schedule, now()) from public.refresh_rows s",
    # A plan, and the slot of a run.
    "select public.refresh_details(p_function_name => 'free', p_acquired => true)",
    "select public.plan_refresh(p_function_name => 'free', p_planned_from => null, p_next_run_at => null,"
    " p_cadence => '6h')",
    f"select public.serve_refresh_slot({THEIRS}, p_fence => 1, p_slot_at => now(), p_missed_count => 0)",
    "select public.unplanned_refreshes(p_actions => '{free}')",
    "select public.take_refresh_lock('free', gen_random_uuid(), '5m', false, '', null, null, null, '1h', null, null,"
    " null)",
    # What is to be told, and whether all is well.
    "select public.claim_refresh_alerts(p_addresses => '{a}', p_holder => gen_random_uuid())",
    "select public.settle_refresh_alerts(p_holder => gen_random_uuid(), p_delivered => '{1}', p_failed => '{}',"
    " p_unsent => '{}')",
    "select public.read_refresh_health()",
    "select public.refresh_next_at(s.schedule, now()) from public.refresh_rows s",
    # And what claim_due_refresh needs; only the backends of one's own role can be ended.
    "select public.take_due_refreshes(array[gen_random_uuid()], '5m', null, null, '1h', null, '', null, null)",
    "select pid from public.refresh_holders",
    "select gid from public.refresh_prepared",
    "select public.end_refresh_holder('held')",
    # Who forced it.
    "select public.record_refresh_operation(p_function_name => 'free', p_operation => 'run')",
    # A job may ask for the lock of a claim.
    "select pg_try_advisory_xact_lock(public.refresh_lock_key('claim'), 1)",
    # A job may make schedules, also in place of its own.
    "select public.schedule_action(p_function_name => 'new', p_action => 'work')",
    "select public.schedule_action(p_function_name => 'free', p_action => 'work', p_replace => true)",
    # The openings and what is remembered of their sources.
    "select request_id from public.live_runs",
    "select request_id from public.abandoned_runs",
    "select title from public.opening_signals",
    "insert into public.opening_signals (source, external_id) values ('acme', '1')",
    "update public.opening_signals set title = 'Baker'",
    "select public.opening_fingerprint('1', '')",
    "select name from public.opening_sources for no key update",
    "insert into public.opening_sources (name) values ('acme')",
    "update public.opening_sources set failures = 0",
    "select digest from public.opening_pages",
    "insert into public.opening_pages values ('acme', '', 1, 1)",
    "delete from public.opening_pages",
    "select title from public.opening_staging",
    "insert into public.opening_staging (request_id, source, position, external_id, content_hash)"
    " values (gen_random_uuid(), 'acme', 0, '1', '')",
    "delete from public.opening_staging",
    "select source from public.opening_staging_pages",
    "insert into public.opening_staging_pages (request_id, source, position, external_ids, differing)"
    " values (gen_random_uuid(), 'acme', 0, '{}', 0)",
    "delete from public.opening_staging_pages",
    "insert into public.opening_changes (source, external_id, field) values ('acme', '1', 'title')",
    "delete from public.opening_changes",
)

READER = (
    "select state from public.refresh_status",
    "select title from public.openings",
    "select title from public.new_openings",
    "select title from public.closed_openings",
)

RUNNER_AND_READER = (
    "select public.read_refresh_status()",
    "select public.read_refresh_page(p_search => 'free')",
    "select public.read_refresh_schedule(p_function_name => 'free')",
    "select field from public.opening_changes",
)

ANYBODY = (
    "select 1",
    "create temporary table refresh_schedule (function_name text)",
    "select pg_try_advisory_xact_lock(1, 1)",
    "listen anything",
)

NOBODY = (
    # The tables of the mechanism.
    "select function_name from public.refresh_schedule",
    "insert into public.refresh_schedule (function_name, action) values ('new', 'new')",
    "update public.refresh_schedule set next_run_at = null",
    "update public.refresh_schedule set fence = fence + 1",
    "delete from public.refresh_schedule",
    "truncate public.refresh_schedule",
    "select 1 from public.refresh_schedule for update",
    "lock table public.refresh_schedule in share mode",
    "copy public.refresh_schedule to stdout",
    "select request_id from public.refresh_runs",
    "insert into public.refresh_runs default values",
    "update public.refresh_runs set status = 'success'",
    "delete from public.refresh_runs",
    "truncate public.refresh_runs",
    "select actor from public.refresh_operations",
    "insert into public.refresh_operations (function_name, operation, actor) values ('free', 'run', 'me')",
    "delete from public.refresh_operations",
    "select address from public.refresh_alerts",
    "insert into public.refresh_alerts (address, function_name, kind) values ('a', 'free', 'late')",
    "update public.refresh_alerts set tries = 0",
    "delete from public.refresh_alerts",
    "select name from public.cronlease_migrations",
    "insert into public.cronlease_migrations (name, hash) values ('0001', '')",
    "delete from public.cronlease_migrations",
    # Through what only shows them.
    "update public.refresh_rows set locked_by = null",
    "delete from public.refresh_rows",
    "delete from public.live_runs",
    "delete from public.abandoned_runs",
    "update public.closed_openings set closed_at = null",
    # What is the operator's, and what only other functions call.
    "select public.pause_refresh(p_function_name => 'free')",
    "select public.resume_refresh(p_function_name => 'free')",
    "select public.delete_refresh(p_function_name => 'free')",
    "select public.unlock_refresh(p_function_name => 'held')",
    "select public.recover_stale_dispatches()",
    "select public.held_refreshes('{}', null, null, '', null)",
    "select public.take_refresh_locks('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '', null, null)",
    "select public.grant_refresh_locks('{}', '{}', '{}', '{}', now(), false, '', null, null)",
    "select public.end_refresh_runs(p_ends => '[]')",
    "select public.refresh_after_end("
    "s, null, null, now(), 'success', null, null, null, null, null, null, null, null, null)"
    " from (select null::public.refresh_schedule as s) nothing",
    "select public.hold_idle_refresh(p_function_name => 'free', p_error => '')",
    "select public.abandon_refresh_run(p_function_name => 'held', p_fence => 1, p_error => '')",
    "select public.is_band('10m')",
    "select public.is_cron('0 9 * * *')",
    "select public.refresh_was_delivered(p_function_name => 'free', p_delivery => '1')",
    "select public.refresh_health(s.schedule, clock_timestamp()) from public.refresh_rows s",
    "select public.args_mistake('{}')",
    "select public.refresh_late_at(now(), '6h', false, null)",
    "select public.write_refresh_alert('{a}', 'free', 'late')",
    "select public.refresh_is_late(s.schedule, now()) from public.refresh_rows s",
    "select public.refresh_due_closed(s.schedule, now()) from public.refresh_rows s",
    "select public.tell_refresh_abandoned(s.schedule, '{a}') from public.refresh_rows s",
    "select public.tell_refresh_end(s.schedule, '{a}', 'failed', '', 1, now(), null) from public.refresh_rows s",
    "select public.readable_args('{}')",
    # More of the job's tables than the job needs.
    "delete from public.opening_signals",
    "truncate public.opening_signals",
    "delete from public.opening_sources",
    "update public.opening_pages set openings = 0",
    "update public.opening_changes set new_value = ''",
    "update public.opening_staging set title = ''",
    "update public.opening_staging_pages set differing = 0",
    "truncate public.opening_staging",
    # The schema itself.
    "create table public.another (id integer)",
    "create function public.another() returns integer language sql as 'select 1'",
    "create schema another",
    "drop extension plpgsql",
    "alter table public.refresh_schedule disable trigger all",
    "alter table public.opening_signals disable trigger first_seen_at_never_changes",
    "alter table public.opening_signals add column more text",
    "create index on public.opening_signals (title)",
    "create trigger another before insert on public.opening_signals execute function public.keep_first_seen_at()",
    "drop table public.opening_staging",
    "drop view public.refresh_status",
    "drop function public.release_refresh_lock",
    "alter function public.finish_refresh_run security invoker",
    "create or replace function public.is_band(p_text text) returns boolean language sql as 'select true'",
    "grant select on public.refresh_schedule to public",
    "grant execute on function public.unlock_refresh to public",
    # Other people.
    "create role another",
    "alter role cronlease_runner login",
    "grant pg_read_all_data to cronlease_reader",
    "set session_replication_role = replica",
    "select rolpassword from pg_authid",
    "select pg_read_file('PG_VERSION')",
    "copy (select 1) to program 'true'",
    "select pg_terminate_backend(%(owner)s)",
    "set role %(name)s",
)

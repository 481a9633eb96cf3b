-- Finds the next due row of an action, however many rows others have, and shows the state of a large schedule.
-- The key is not the next_run_at of refresh_schedule_due on purpose: where statistics are old, a reader that
-- asks for one action must not be led through the rows of all of them.
create index refresh_schedule_due_by_action
  on public.refresh_schedule (action, coalesce(next_run_at, '-infinity'), id)
  where completed_at is null and paused_at is null;

create index refresh_schedule_paused
  on public.refresh_schedule (paused_at)
  where paused_at is not null;

create index refresh_schedule_completed
  on public.refresh_schedule (completed_at)
  where completed_at is not null;

create index refresh_runs_newest on public.refresh_runs (started_at);

-- Each claim and each end of a run leaves an old version of the row where the next claim looks first.
alter table public.refresh_schedule set (autovacuum_vacuum_scale_factor = 0.02);

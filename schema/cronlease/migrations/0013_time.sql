-- Cadences beyond bands, the slots that they are due at, and what a run that did not finish has saved. A row of
-- version 0.1 keeps its meaning: a single duration was a band without width, and is a beat from now on.
update public.refresh_schedule
set every = every || '..' || every
where every ~ '^[0-9]{1,9}(\.[0-9]{1,6})?[smhd]$';

alter table public.refresh_schedule
  add column cron text,
  add column time_zone text,
  add column missed text,
  add column late interval,
  add column attempts integer,
  add column planned_from text,
  add column planned_at timestamptz,
  add column planned_before text,
  add column slot_at timestamptz,
  add column last_slot_at timestamptz,
  add column last_success_slot_at timestamptz,
  add column attempt integer not null default 0,
  add column saved jsonb,
  add constraint cron_and_every_exclude_each_other check (cron is null or every is null),
  add constraint a_time_zone_is_a_crons check (time_zone is null or cron is not null),
  add constraint a_one_shot_has_no_cron check (cron is null or not once),
  add constraint missed_is_known check (missed in ('once', 'skip')),
  add constraint late_says_what_is_skipped check (coalesce(missed = 'skip', false) = (late is not null)),
  add constraint late_is_longer_than_zero check (late > interval '0'),
  add constraint attempts_is_positive check (attempts > 0),
  add constraint attempt_not_negative check (attempt >= 0);

comment on column public.refresh_schedule.planned_from is
  'the cadence that the plan was made from; hit: its trigger owns the schedule, run-due and worker leave it alone';
comment on column public.refresh_schedule.slot_at is 'the slot that the next run serves; null: it serves none';
comment on column public.refresh_schedule.attempt is 'how many runs in a row, or of the slot, have not succeeded';

-- Rows whose own cadence is not the one that they were planned from: somebody edited them. Most often none.
create index refresh_schedule_edited
  on public.refresh_schedule (action)
  where completed_at is null
    and not once
    and (planned_from <> coalesce(cron || ' ' || coalesce(time_zone, 'UTC'), every)
      or (planned_from is null and cron is not null));

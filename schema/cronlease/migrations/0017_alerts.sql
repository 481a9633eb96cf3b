-- The breaker, when a schedule counts as late, and what is to be told of it.
alter table public.refresh_schedule
  add column late_at timestamptz,
  add column late_alert interval,
  add column pause_after integer,
  add column probe interval,
  add column breaker_until timestamptz,
  add column incident_at timestamptz,
  add column told text[] not null default '{}',
  add constraint late_alert_is_longer_than_zero check (late_alert > interval '0'),
  add constraint pause_after_is_positive check (pause_after > 0),
  add constraint probe_is_longer_than_zero check (probe > interval '0');

comment on column public.refresh_schedule.late_at is
  'from when on the planned run counts as late; written with the plan; null: never';
comment on column public.refresh_schedule.breaker_until is
  'not null: too many runs failed in a row, and the next one is the probe, not before this time';
comment on column public.refresh_schedule.incident_at is 'since when it is not well; null: its last run succeeded';
comment on column public.refresh_schedule.told is 'what alerts have said of it since they last said that it is well';

-- Most often each has few rows or none: what is late, what is not well, and what was abandoned.
create index refresh_schedule_late
  on public.refresh_schedule (late_at)
  where late_at is not null and completed_at is null and paused_at is null and breaker_until is null;

create index refresh_schedule_unwell
  on public.refresh_schedule (function_name)
  where failures >= 3 or breaker_until is not null;

create index refresh_schedule_abandoned
  on public.refresh_schedule (function_name)
  where abandoned > 0;

-- What is to be told, for each address in order, until it is delivered.
create table public.refresh_alerts (
  id bigint generated always as identity primary key,
  address text not null,
  function_name text not null,
  kind text not null,
  since timestamptz,
  times integer,
  error text,
  due_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  tries integer not null default 0,
  held_by uuid,
  held_until timestamptz,
  constraint kind_is_known check (kind in ('failing', 'breaker_open', 'abandoned', 'late', 'recovered')),
  constraint tries_not_negative check (tries >= 0)
);

comment on column public.refresh_alerts.address is 'a hash of the webhook''s URL, which is a secret';
comment on column public.refresh_alerts.due_at is 'when the late run was due, or when the breaker lets a probe through';
comment on column public.refresh_alerts.held_until is 'until then somebody is delivering it, or it is not tried again';

create index refresh_alerts_order on public.refresh_alerts (address, id);

-- What people did to schedules, from the page, the command line or by hand.
create table public.refresh_operations (
  id bigint generated always as identity primary key,
  function_name text not null,
  operation text not null,
  actor text not null,
  reason text,
  request_id uuid,
  done_at timestamptz not null default clock_timestamp(),
  constraint operation_is_known check (operation in ('run', 'pause', 'resume', 'unlock', 'delete'))
);

comment on column public.refresh_operations.request_id is 'of the run that was forced, or whose lease was broken';

create index refresh_operations_newest on public.refresh_operations (function_name, id);
create index refresh_operations_oldest on public.refresh_operations (done_at);

-- The status page finds what fails or is stopped, and names by how they begin, however many schedules there are.
create index refresh_schedule_failing
  on public.refresh_schedule (last_run_at)
  where failures > 0 and completed_at is null and paused_at is null;

create index refresh_schedule_stopped
  on public.refresh_schedule (breaker_until)
  where breaker_until is not null and completed_at is null and paused_at is null;

create index refresh_schedule_names on public.refresh_schedule (lower(function_name) text_pattern_ops);

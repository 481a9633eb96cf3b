-- Which slot or delivery a run was for, the how manieth of it, and how many slots went by without a run before it.
alter table public.refresh_runs
  add column slot timestamptz,
  add column delivery text,
  add column attempt integer,
  add column missed integer;

comment on column public.refresh_runs.delivery is
  'what the trigger calls this delivery, such as its job and slot in UTC, or a message id';
comment on column public.refresh_runs.attempt is 'null: the run was forced, and served no slot';

-- The status is not in it: the end of a run must change no index.
create index refresh_runs_delivery
  on public.refresh_runs (function_name, delivery)
  where delivery is not null;

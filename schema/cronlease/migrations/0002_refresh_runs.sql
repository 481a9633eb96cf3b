-- One row per real run: written by acquire_refresh_lock, closed by finish_refresh_run.
create table public.refresh_runs (
  request_id uuid primary key,
  function_name text not null,
  action text not null,
  args jsonb not null default '{}',
  fence bigint not null,
  trigger text not null,
  job_name text,
  schedule_time text,
  parent_request_id uuid,
  started_at timestamptz not null,
  finished_at timestamptz,
  status text not null default 'running',
  error text,
  fetched bigint,
  inserted bigint,
  updated bigint,
  unchanged bigint,
  closed bigint,
  next_run_at timestamptz,
  constraint status_is_known check (
    status in ('running', 'success', 'partial', 'failed', 'interrupted', 'abandoned')
  ),
  constraint a_closed_run_has_an_end check ((status = 'running') = (finished_at is null))
)
-- Room for the end of a run on the page of its beginning: no index changes then.
with (fillfactor = 80);

comment on column public.refresh_runs.schedule_time is 'as the scheduler sent it; never compared, never trusted';

-- The fence grows with every run of a function: this is its history in order, and finds the newest run.
create index refresh_runs_history on public.refresh_runs (function_name, fence);

-- From when on a run that still has its row locked is taken for frozen: a hit may then end its backend.
alter table public.refresh_runs add column overdue_at timestamptz;

comment on column public.refresh_runs.overdue_at is
  'when the run is older than its max run plus its lease; null: its revision did not say how long it may run';

-- A database as it was before leases: what cronlease finds where an older deployment already ran.
create table public.refresh_schedule (
  function_name text primary key,
  next_run_at timestamptz,
  last_run_at timestamptz,
  last_status text
);

create table public.opening_signals (
  source text,
  external_id text,
  title text,
  url text,
  first_seen_at timestamptz,
  primary key (source, external_id)
);

insert into public.refresh_schedule (function_name, next_run_at, last_run_at, last_status)
values
  ('refresh_opening_signals', '2026-01-02 03:04:05+00', '2026-01-02 02:54:05+00', 'ok'),
  ('never_ran', null, null, null);

insert into public.opening_signals (source, external_id, title, url, first_seen_at)
values
  ('acme', '1', 'Engineer', 'https://example.com/1', '2025-12-31 23:59:59.123456+00'),
  ('acme', '2', null, null, '2026-01-01 00:00:00+00');

-- The same, written with times without a zone (as a session in Asia/Tokyo writes them), defaults, and nothing left null.
create table public.refresh_schedule (
  function_name text primary key,
  next_run_at timestamp not null default now(),
  last_run_at timestamp not null default now(),
  last_status text not null default 'never'
);

create table public.opening_signals (
  source text not null,
  external_id text not null,
  title text not null default '',
  url text not null,
  first_seen_at timestamp not null default now(),
  primary key (source, external_id)
);

insert into public.refresh_schedule (function_name, next_run_at, last_run_at, last_status)
values
  ('refresh_opening_signals', '2026-01-02 12:04:05', '2026-01-02 11:54:05', 'ok'),
  ('never_ran', '2026-01-01 00:00:00', '2026-01-01 00:00:00', 'never');

insert into public.opening_signals (source, external_id, title, url, first_seen_at)
values
  ('acme', '1', 'Engineer', 'https://example.com/1', '2026-01-01 08:59:59.123456'),
  ('acme', '2', '', '', '2026-01-01 09:00:00');

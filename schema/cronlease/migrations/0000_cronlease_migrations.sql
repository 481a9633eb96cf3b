-- What was applied, and what its text was: a migration that changed afterwards is refused.
create table public.cronlease_migrations (
  name text primary key,
  hash text not null,
  applied_at timestamptz not null default clock_timestamp()
);

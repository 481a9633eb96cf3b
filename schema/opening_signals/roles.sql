-- What the roles of the mechanism may do with the job's tables. An opening is closed, never deleted; only the operator
-- forgets a source.
grant execute on function public.opening_fingerprint to cronlease_runner;
grant select, insert, update on public.opening_signals, public.opening_sources to cronlease_runner;
grant select, insert, delete
  on public.opening_pages, public.opening_staging, public.opening_staging_pages, public.opening_changes
  to cronlease_runner;

grant select
  on public.openings, public.new_openings, public.closed_openings, public.opening_changes
  to cronlease_reader;

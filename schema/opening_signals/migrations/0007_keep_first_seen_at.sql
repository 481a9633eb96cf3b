-- Whoever may write openings cannot bring a clock of his own: the time is the server's, whatever the caller's
-- search_path says. A trigger's function is called by the trigger alone.
alter function public.keep_first_seen_at() set search_path = pg_catalog, pg_temp;
revoke all on function public.keep_first_seen_at() from public;

-- Closes many runs in one commit. Each is an object with the arguments of finish_refresh_run by their names, without
-- p_, and is fenced by itself: one whose lease is not its own is answered as lost, and the others are closed. The rows
-- are locked in the order of their IDs, and nobody waits: a run whose row somebody else has locked is answered as busy,
-- and its caller finishes it by itself. A row that raises costs the whole batch: the caller then does so for each run.
create or replace function public.finish_refresh_runs(
  p_ends jsonb,
  out request_id uuid,
  out status text,
  out next_run_at timestamptz
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
begin
  if jsonb_typeof(p_ends) <> 'array' or jsonb_path_exists(p_ends, 'strict $[*] ? (@.type() != "object")') then
    raise exception 'the ends of runs are an array of objects' using errcode = '22023';
  end if;
  return query
  select e.request_id, coalesce(e.status, 'lost'), e.next_run_at
  from public.end_refresh_runs(p_ends => p_ends) e;
end
$$;

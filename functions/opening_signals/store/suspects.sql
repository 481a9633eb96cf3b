-- Notes about fetches need not survive a crash of the server, so their commits do not wait for the disk.

-- name: note_fetch
-- A live run is about to fetch the source. Another writer may hold its row: that one wins, and this fetch is not noted.
with live as materialized (
  select request_id
  from public.live_runs
  where request_id = %(request_id)s
),
free as materialized (
  select name
  from public.opening_sources
  where name = %(source)s
  for no key update skip locked
),
noted as (
  update public.opening_sources s
  set fetching_run = live.request_id,
      fetching_definition = %(definition)s,
      fetching_alone = %(alone)s
  from live, free
  where s.name = free.name
),
added as (
  insert into public.opening_sources (name, fetching_run, fetching_definition, fetching_alone)
  select %(source)s, live.request_id, %(definition)s, %(alone)s
  from live
  where not exists (select from public.opening_sources where name = %(source)s)
  on conflict (name) do nothing
)
select set_config('synchronous_commit', 'off', true)

-- name: end_fetch
-- The process survived this fetch: whatever the source sent, it is not a suspect.
with free as materialized (
  select name
  from public.opening_sources
  where name = %(source)s
    and fetching_run = %(request_id)s
  for no key update skip locked
),
ended as (
  update public.opening_sources s
  set fetching_run = null,
      fetching_definition = null,
      fetching_alone = false
  from free
  where s.name = free.name
)
select set_config('synchronous_commit', 'off', true)

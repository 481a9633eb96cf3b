-- This run's fetch of the source is over, and the process lives: whatever the fetch gave, the source is not suspected.
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

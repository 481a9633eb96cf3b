-- name: orphaned_sources
-- The sources that are not in the file but have open openings, and how many: counted up to a thousand, so that a large
-- source does not slow down every run.
select s.name, counted.openings
from public.opening_sources s
cross join lateral (
  select count(*) as openings
  from (
    select
    from public.opening_signals o
    where o.source = s.name
      and o.closed_at is null
    limit 1000
  ) open
) counted
where s.name <> all (%(sources)s)
  and counted.openings > 0
order by s.name collate "C"

-- name: source_exists
-- Whether a source with that name was ever fetched or has openings.
select
  exists (select from public.opening_sources where name = %(source)s)
  or exists (select from public.opening_signals where source = %(source)s)

-- name: forget_source
-- Closes the open openings of a source whose row the caller holds, deletes the row, and counts the closed openings.
with closed as (
  update public.opening_signals o
  set closed_at = transaction_timestamp(),
      last_seen_at = coalesce(
        (select s.last_seen_at from public.opening_sources s where s.name = %(source)s),
        o.changed_at,
        o.first_seen_at
      )
  where o.source = %(source)s
    and o.closed_at is null
  returning 1
),
pages as (
  delete from public.opening_pages
  where source = %(source)s
),
forgotten as (
  delete from public.opening_sources
  where name = %(source)s
)
select count(*)
from closed

-- Forgets a source whose row the caller holds: closes what is open of it, removes the row, and says how many closed.
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

-- name: source_status
-- The state of each source that was ever asked, by name; `until` is null once that time has passed.
select
  s.name,
  s.last_ok_at,
  s.items,
  s.failures,
  case when s.next_fetch_at > now() then s.next_fetch_at end as until,
  s.asked_to_wait,
  s.last_error,
  s.doubt,
  exists (select from public.opening_signals o where o.source = s.name and o.closed_at is null) as has_openings
from public.opening_sources s
order by s.name collate "C"

-- name: signals
-- The openings that appeared, changed or closed within the given time, the latest first: one signal each, with its
-- time. `closed` wins over `new`, and `new` over `changed`. `changes` are the fields that changed within that time, the
-- oldest change first; null without any.
with changes as materialized (
  select
    c.source,
    c.external_id,
    jsonb_agg(
      jsonb_build_object('field', c.field, 'from', c.old_value, 'to', c.new_value, 'at', c.changed_at)
      order by c.changed_at, c.field
    ) as changes
  from public.opening_changes c
  where c.changed_at >= now() - %(within)s::interval
    and (%(source)s::text is null or c.source = %(source)s)
  group by c.source, c.external_id
)
select
  case
    when not o.open then 'closed'
    when o.first_seen_at >= t.since then 'new'
    else 'changed'
  end as signal,
  case
    when not o.open then o.closed_at
    when o.first_seen_at >= t.since then o.first_seen_at
    else o.changed_at
  end as at,
  o.source,
  o.external_id,
  o.title,
  o.organization,
  o.location,
  o.url,
  o.posted_at,
  o.first_seen_at,
  o.changed_at,
  o.closed_at,
  o.last_seen_at,
  o.department,
  o.remote,
  c.changes
from public.openings o
left join changes c
  on c.source = o.source
  and c.external_id = o.external_id
cross join (select now() - %(within)s::interval as since) t
where greatest(o.first_seen_at, o.changed_at, o.closed_at) >= t.since
  and (%(source)s::text is null or o.source = %(source)s)
order by at desc, o.source, o.external_id

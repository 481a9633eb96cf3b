-- The open openings that were first seen within the last seven days, the newest first.
create or replace view public.new_openings as
select
  o.source,
  o.external_id,
  o.title,
  o.organization,
  o.location,
  o.url,
  o.posted_at,
  o.first_seen_at,
  o.changed_at,
  coalesce(s.last_seen_at, o.changed_at, o.first_seen_at) as last_seen_at,
  o.department,
  o.remote
from public.opening_signals o
left join public.opening_sources s
  on s.name = o.source
where o.closed_at is null
  and o.first_seen_at > now() - interval '7 days'
order by o.first_seen_at desc, o.source, o.external_id;

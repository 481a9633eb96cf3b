-- Every opening with the time when it was last seen. An open one was last seen when its source last answered: an
-- unchanged reload writes no opening.
create or replace view public.openings as
select
  o.source,
  o.external_id,
  o.title,
  o.organization,
  o.location,
  o.url,
  o.posted_at,
  o.payload,
  o.content_hash,
  o.first_seen_at,
  o.changed_at,
  o.closed_at,
  coalesce(o.last_seen_at, s.last_seen_at, o.changed_at, o.first_seen_at) as last_seen_at,
  o.closed_at is null as open,
  o.department,
  o.remote,
  o.payload_hash
from public.opening_signals o
left join public.opening_sources s
  on s.name = o.source;

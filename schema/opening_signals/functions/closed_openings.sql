-- The openings that their source no longer has, the latest closed first.
create or replace view public.closed_openings as
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
  coalesce(o.last_seen_at, o.changed_at, o.first_seen_at) as last_seen_at,
  o.closed_at,
  o.department,
  o.remote
from public.opening_signals o
where o.closed_at is not null
order by o.closed_at desc, o.source, o.external_id;

-- Moves what this run staged into the openings and counts what it did. Sources that are not named were not
-- fetched to the end: their rows are only removed. An opening that is the same as before is not touched.
-- Keys and hashes are sorted and compared first; the wide rows are read only where something differs.
with latest as materialized (
  select distinct on (source collate "C", external_id collate "C") source, external_id, position, content_hash
  from public.opening_staging
  where request_id = %(request_id)s
    and source = any(%(sources)s)
  order by source collate "C", external_id collate "C", position desc
),
known as (
  select source, external_id, content_hash, closed_at
  from public.opening_signals
  where source = any(%(sources)s)
),
differing as (
  select l.source, l.position
  from latest l
  left join known k
    on k.source = l.source
    and k.external_id = l.external_id
  where k.source is null
    or k.content_hash is distinct from l.content_hash
    or k.closed_at is not null
),
written as (
  insert into public.opening_signals as o (
    source, external_id, title, organization, location, url, posted_at, payload, content_hash
  )
  select
    s.source, s.external_id, s.title, s.organization, s.location, s.url, s.posted_at, s.payload, s.content_hash
  from public.opening_staging s
  join differing d
    on d.source = s.source
    and d.position = s.position
  where s.request_id = %(request_id)s
  -- One order of bytes for every writer, so that two of them can never deadlock.
  order by s.source collate "C", s.external_id collate "C"
  -- The opening was known and differs, or another writer got there first.
  on conflict (source, external_id) do update
  set title = excluded.title,
      organization = excluded.organization,
      location = excluded.location,
      url = excluded.url,
      posted_at = excluded.posted_at,
      payload = excluded.payload,
      content_hash = excluded.content_hash,
      changed_at = case
        when o.content_hash is distinct from excluded.content_hash then transaction_timestamp()
        else o.changed_at
      end,
      closed_at = null
  where o.content_hash is distinct from excluded.content_hash
    or o.closed_at is not null
  -- Only a row that was there before carries the mark of the lock that its update took.
  returning (xmax = 0) as is_new
),
emptied as (
  delete from public.opening_staging
  where request_id = %(request_id)s
)
select
  (select count(*) from latest) as fetched,
  count(*) filter (where is_new) as inserted,
  count(*) filter (where not is_new) as updated
from written

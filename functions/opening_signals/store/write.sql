-- Writes what this run staged in full of its complete sources, and says how many rows are new and how many not.
-- Staged is what differed page by page: an opening counts as its last page has it.
with latest as materialized (
  select source, external_id, max(position) as position
  from (
    select source, position, unnest(external_ids) as external_id
    from public.opening_staging_pages
    where request_id = %(request_id)s
      and source = any (%(sources)s)
  ) seen
  group by source, external_id
),
written as (
  insert into public.opening_signals as o (
    source, external_id, title, organization, location, url, posted_at, payload, content_hash
  )
  select
    s.source, s.external_id, s.title, s.organization, s.location, s.url, s.posted_at, s.payload, s.content_hash
  from public.opening_staging s
  join latest l
    on l.source = s.source
    and l.external_id = s.external_id
    and l.position = s.position
  where s.request_id = %(request_id)s
  -- One order of bytes for every writer.
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
      closed_at = null,
      last_seen_at = null
  where o.content_hash is distinct from excluded.content_hash
    or o.closed_at is not null
  -- Only a row that was there before carries the mark of the lock that its update took.
  returning (xmax = 0) as is_new
),
emptied as (
  delete from public.opening_staging
  where request_id = %(request_id)s
)
select count(*) filter (where is_new), count(*) filter (where not is_new)
from written

-- One page of a source: remembers its keys and answers the places (from 1) of the openings that are not stored just
-- so, which the caller stages in full.
with page as materialized (
  select
    g.place,
    g.content_hash is distinct from known.content_hash as differs,
    public.opening_fingerprint(g.external_id, g.content_hash) as fingerprint
  from (
    select external_id, place, substring(%(content_hashes)b from place::integer * 32 - 31 for 32) as content_hash
    from unnest(%(external_ids)s::text[]) with ordinality as u (external_id, place)
  ) g
  left join (
    select external_id, content_hash
    from public.opening_signals
    where source = %(source)s
      and external_id = any (%(external_ids)s::text[])
  ) known
    on known.external_id = g.external_id
),
remembered as (
  insert into public.opening_staging_pages (
    request_id, source, position, external_ids, differing, digest, openings, fingerprint, trusted
  )
  select
    %(request_id)s,
    %(source)s,
    %(position)s,
    %(external_ids)s,
    count(*) filter (where differs),
    %(digest)s,
    count(*),
    sum(fingerprint),
    %(trusted)s
  from page
)
select coalesce(array_agg(place) filter (where differs), '{}')
from page

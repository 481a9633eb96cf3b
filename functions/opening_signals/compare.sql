-- One page of a source: remembers its keys and answers the places (from 1) of the openings that are not stored just
-- so, which the caller stages in full.
with differing as materialized (
  select g.place
  from unnest(%(external_ids)s::text[]) with ordinality as g (external_id, place)
  left join (
    select external_id, content_hash
    from public.opening_signals
    where source = %(source)s
      and external_id = any (%(external_ids)s::text[])
  ) known
    on known.external_id = g.external_id
  where known.content_hash is distinct from substring(%(content_hashes)b from g.place::integer * 32 - 31 for 32)
),
remembered as (
  insert into public.opening_staging_pages (request_id, source, position, external_ids, differing)
  select %(request_id)s, %(source)s, %(position)s, %(external_ids)s, count(*)
  from differing
)
select coalesce(array_agg(place), '{}')
from differing

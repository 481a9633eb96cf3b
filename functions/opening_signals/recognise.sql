-- One page of a source: when every one of its openings is stored just so, remembers their keys and says true.
-- Mostly it is so, and this is the cheapest way to know: all hashes at once, in the order of their keys' bytes.
with page as (
  select
    count(*) = cardinality(%(external_ids)s::text[])
      and string_agg(content_hash, '' order by external_id collate "C") = %(content_hashes)b as same
  from public.opening_signals
  where source = %(source)s
    and external_id = any (%(external_ids)s::text[])
),
remembered as (
  insert into public.opening_staging_pages (request_id, source, position, external_ids, differing)
  select %(request_id)s, %(source)s, %(position)s, %(external_ids)s, 0
  from page
  where same
  returning 1
)
select exists (select from remembered)

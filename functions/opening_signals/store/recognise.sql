-- One page of a source: when it was there at the last merge, and nobody has changed what was stored then, remembers
-- its keys and says true. No opening is read for it.
with remembered as (
  insert into public.opening_staging_pages (
    request_id, source, position, external_ids, differing, digest, openings, fingerprint, trusted
  )
  select
    %(request_id)s, %(source)s, %(position)s, %(external_ids)s, 0, digest, openings, fingerprint, %(trusted)s
  from public.opening_pages
  where source = %(source)s
    and digest = %(digest)s
    and (
      %(trusted)s
      or exists (
        select
        from public.opening_staging_pages first
        where first.request_id = %(request_id)s
          and first.source = %(source)s
          and first.trusted
      )
    )
  returning 1
)
select exists (select from remembered)

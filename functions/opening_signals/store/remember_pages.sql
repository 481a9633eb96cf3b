-- The staged pages of these sources, which are just what is stored, are remembered instead of those before. What is
-- there already is not written again.
with staged as materialized (
  select source, digest, openings, fingerprint
  from public.opening_staging_pages
  where request_id = %(request_id)s
    and source = any (%(sources)s)
),
forgotten as (
  delete from public.opening_pages p
  where p.source = any (%(sources)s)
    and not exists (select from staged s where s.source = p.source and s.digest = p.digest)
)
insert into public.opening_pages (source, digest, openings, fingerprint)
select s.source, s.digest, s.openings, s.fingerprint
from staged s
where not exists (select from public.opening_pages p where p.source = s.source and p.digest = s.digest)

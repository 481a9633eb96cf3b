-- Those of the sources whose staged pages are, taken together, just their open openings as they are stored now, and
-- how many openings that is: nothing is left to close or to open. A key that was on two pages never adds up.
select s.source, coalesce(stored.openings, 0)
from unnest(%(sources)s::text[]) as s (source)
left join (
  select source, sum(openings) as openings, sum(fingerprint) as fingerprint
  from public.opening_staging_pages
  where request_id = %(request_id)s
    and source = any (%(sources)s)
  group by source
) staged
  on staged.source = s.source
left join (
  select
    source,
    count(*) as openings,
    sum(public.opening_fingerprint(external_id, content_hash)) as fingerprint
  from public.opening_signals
  where source = any (%(sources)s)
    and closed_at is null
  group by source
) stored
  on stored.source = s.source
where staged.openings is not distinct from stored.openings
  and staged.fingerprint is not distinct from stored.fingerprint

-- Whether the pages that are remembered of a source are, taken together, just its open openings as they are stored
-- now: whoever else has written there since, each of them is then stored as its page had it.
select coalesce(p.openings = o.openings and p.fingerprint = o.fingerprint, false)
from (
  select sum(openings) as openings, sum(fingerprint) as fingerprint
  from public.opening_pages
  where source = %(source)s
) p
cross join lateral (
  select count(*) as openings, sum(public.opening_fingerprint(external_id, content_hash)) as fingerprint
  from public.opening_signals
  where source = %(source)s
    and closed_at is null
    and p.openings > 0
) o

-- What this run staged, by source: how many pages, and whether any opening of theirs is there in full.
select source, count(*) as pages, bool_or(differing > 0) as in_full
from public.opening_staging_pages
where request_id = %(request_id)s
group by source

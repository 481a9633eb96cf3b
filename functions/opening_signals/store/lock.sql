-- Whoever merges a source holds its row until the end: two writers of one source take turns, whatever the order
-- in which they touch its openings, and can never deadlock.
select name
from public.opening_sources
where name = any (%(sources)s)
order by name collate "C"
for no key update

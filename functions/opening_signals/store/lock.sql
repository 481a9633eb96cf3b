-- name: create_missing_sources
-- The same order for every writer. An existing row stays as it is.
insert into public.opening_sources (name)
select name
from unnest(%(sources)s::text[]) as s (name)
order by name collate "C"
on conflict (name) do nothing

-- name: lock_sources
-- Whoever merges a source holds its row until the end: two writers of one source take turns and never deadlock, in
-- whatever order they touch its openings.
select name
from public.opening_sources
where name = any (%(sources)s)
order by name collate "C"
for no key update

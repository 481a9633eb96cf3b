-- Makes sure that each source has its row, in one order for every writer. A row that is already there stays as it is.
insert into public.opening_sources (name)
select name
from unnest(%(sources)s::text[]) as s (name)
order by name collate "C"
on conflict (name) do nothing

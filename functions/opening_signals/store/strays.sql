-- The sources that were asked once and are not among those of the file, while openings of theirs are open, and how
-- many: counted to a thousand, so that a large one costs no run more than that.
select s.name, counted.openings
from public.opening_sources s
cross join lateral (
  select count(*) as openings
  from (
    select
    from public.opening_signals o
    where o.source = s.name
      and o.closed_at is null
    limit 1000
  ) open
) counted
where s.name <> all (%(sources)s)
  and counted.openings > 0
order by s.name collate "C"

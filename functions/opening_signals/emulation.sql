-- name: known_sources
select s.name
from public.opening_sources s
where s.name <> all(%(samples)s::text[])
order by s.name
limit 3

-- name: sources_of_openings
select distinct o.source
from public.opening_signals o
where o.source <> all(%(samples)s::text[])
order by o.source
limit 3

-- name: sources
select
  source,
  count(*) filter (where closed_at is null) as open,
  count(*) filter (where closed_at is not null) as closed,
  count(changed_at) as changed
from public.opening_signals
group by source
order by source

-- name: latest
select
  source,
  external_id,
  title,
  location,
  first_seen_at,
  changed_at,
  closed_at
from public.opening_signals
order by greatest(first_seen_at, changed_at, closed_at) desc, source, external_id
limit 6

-- name: violations
-- One row per violation since then: the broken rule, and what broke it. A run commits in pieces, so one that failed may
-- have written too, until it ended or was replaced; its counts are unknown.
with run as (
  select r.started_at, r.finished_at, r.inserted, r.status in ('success', 'partial') as committed
  from public.refresh_runs r
  where r.started_at >= %(since)s::timestamptz
    and r.function_name = 'refresh_opening_signals'
)
select 'an opening was written by no run', format('%%s %%s', o.source, o.external_id)
from public.opening_signals o
cross join lateral (values (o.first_seen_at), (o.changed_at)) as written (at)
where written.at >= %(since)s::timestamptz
  and exists (select from run)
  and not exists (
    select
    from run r
    where written.at between r.started_at and coalesce(r.finished_at, 'infinity')
  )
union all
select
  'the runs counted other openings than there are',
  format('%%s counted as new, %%s there', counted.new, there.new)
from (
  select coalesce(sum(r.inserted), 0) as new, count(*) as runs
  from run r
  where r.committed
) counted
cross join (
  select count(*) as new
  from public.opening_signals o
  where o.first_seen_at >= %(since)s::timestamptz
    and not exists (
      select
      from run r
      where not r.committed
        and o.first_seen_at between r.started_at and coalesce(r.finished_at, 'infinity')
    )
) there
where counted.new <> there.new
  and counted.runs > 0

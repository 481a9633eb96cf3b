-- Removes what runs that are over left behind: they died, or lost their lease, between staging and merge.
with live as (
  select request_id
  from public.live_runs
  union all
  select %(request_id)s
),
swept as (
  delete from public.opening_staging s
  where not exists (select from live l where l.request_id = s.request_id)
  returning 1
),
swept_pages as (
  delete from public.opening_staging_pages s
  where not exists (select from live l where l.request_id = s.request_id)
  returning 1
)
select (select count(*) from swept) + (select count(*) from swept_pages)

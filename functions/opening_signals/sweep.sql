-- Removes what runs that are over left behind: they died, or lost their lease, between staging and merge.
delete from public.opening_staging s
where s.request_id <> %(request_id)s
  and not exists (
    select
    from public.refresh_runs r
    where r.request_id = s.request_id
      and r.status = 'running'
  )

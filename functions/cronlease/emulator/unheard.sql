-- Runs of which no caller of the emulator was told, by what hit them; ours are those of the emulator's own hits.
select
  coalesce(r.job_name like 'projects/local/locations/emulator/jobs/%%', false)
    or (r.trigger = 'run_due' and r.action = any (%(actions)s::text[])) as ours,
  r.trigger,
  count(*)
from public.refresh_runs r
where r.started_at >= %(since)s::timestamptz
  and (r.function_name = any (%(functions)s::text[]) or r.action = any (%(actions)s::text[]))
  and not %(told)s::jsonb ? r.request_id::text
group by 1, 2
order by 1, 2

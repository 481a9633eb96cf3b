-- The runs that are not over, for a job that deletes what finished runs left behind. A view reads with the rights of
-- its owner: no grant or policy on the table decides whether a live run is seen.
create or replace view public.live_runs as
select r.request_id
from public.refresh_runs r
where r.status = 'running';

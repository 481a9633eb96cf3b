-- The runs that never finished, for a job that asks what they may have died of. A view reads with the rights of its
-- owner, as live_runs does.
create or replace view public.abandoned_runs as
select r.request_id
from public.refresh_runs r
where r.status = 'abandoned';

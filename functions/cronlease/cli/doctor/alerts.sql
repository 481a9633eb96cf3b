-- name: undelivered
-- How many alerts wait for each address, and since when; alerts of the last minute may still be on their way.
select coalesce(
  jsonb_agg(jsonb_build_object('address', waiting.address, 'count', waiting.alerts, 'since', waiting.since)),
  '[]'
)
from (
  select a.address, count(*) as alerts, to_char(min(a.created_at) at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as since
  from public.refresh_alerts a
  group by a.address
  having min(a.created_at) < clock_timestamp() - interval '1 minute'
  order by min(a.created_at)
  limit 10
) waiting

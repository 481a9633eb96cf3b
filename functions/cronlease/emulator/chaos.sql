-- name: lease_left
select extract(epoch from max(s.locked_until) - clock_timestamp())::double precision
from public.refresh_schedule s
where s.locked_until > clock_timestamp()
  and s.locked_until < clock_timestamp() + interval '1 day'

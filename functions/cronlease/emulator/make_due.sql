-- As if their time had come; what somebody holds, or is taking right now, is left alone.
with free as (
  select s.id
  from public.refresh_schedule s
  where s.function_name = any(%(functions)s::text[])
    and (s.locked_until is null or s.locked_until < clock_timestamp())
  for no key update skip locked
)
update public.refresh_schedule s
set next_run_at = least(s.next_run_at, clock_timestamp())
from free
where s.id = free.id
returning s.function_name

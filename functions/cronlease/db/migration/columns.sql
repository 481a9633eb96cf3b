-- name: number_rows
update public.{table} t
set {name} = n.number
from (
  select o.ctid, (select coalesce(max(m.{name}), 0) from public.{table} m) + row_number() over () as number
  from public.{table} o
  where o.{name} is null
) n
where t.ctid = n.ctid

-- name: continue_sequence
select setval(pg_get_serial_sequence('{table}', '{name}'), coalesce(max({name}), 0) + 1, false) from {table}

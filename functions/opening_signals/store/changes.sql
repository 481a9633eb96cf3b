-- name: prune_changes
delete from public.opening_changes
where ctid = any (
  array(
    select ctid
    from public.opening_changes
    where changed_at < now() - %(retention)s::interval
    order by changed_at
    limit 10000
  )
)

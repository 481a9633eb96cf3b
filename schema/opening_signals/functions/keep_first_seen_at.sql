-- The server sets the time at which an opening was first seen, whoever writes, and it never changes. Only the owner of
-- the table may set it, for a restore: in a session with `set cronlease.restoring = on`.
create or replace function public.keep_first_seen_at()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'UPDATE' then
    new.first_seen_at := old.first_seen_at;
  elsif new.first_seen_at is null
    or current_setting('cronlease.restoring', true) is distinct from 'on'
    or not pg_has_role(current_user, (select c.relowner from pg_class c where c.oid = tg_relid), 'usage')
  then
    new.first_seen_at := transaction_timestamp();
  end if;
  return new;
end
$$;

-- Ends the backend that has this row locked for that request, or for any; waits for nothing. Returns who has to end
-- it where the caller may not; null when it was ended, or when there is none. With the rights of the caller: a role
-- may end its own backends, and the owner of a schema has no right to those of others.
create or replace function public.end_refresh_holder(
  p_function_name text,
  p_locked_by text default null
) returns text
language plpgsql
as $$
declare
  v_pid integer;
  v_role text;
begin
  select h.pid, a.usename into v_pid, v_role
  from public.refresh_holders h
  left join pg_catalog.pg_stat_activity a on a.pid = h.pid
  where h.function_name = p_function_name
    and h.locked_by = coalesce(p_locked_by, h.locked_by);
  if not found then
    return null;
  end if;
  begin
    -- Checked again in the statement that ends it: by now the backend may be somebody else's.
    perform pg_catalog.pg_terminate_backend(h.pid)
    from public.refresh_holders h
    where h.function_name = p_function_name
      and h.locked_by = coalesce(p_locked_by, h.locked_by)
      and h.pid = v_pid;
  exception
    when others then
      return format(
        'the run of "%s" has its row locked in backend %s of the role %s, which %s may not end (%s):'
          ' run `select pg_terminate_backend(%s)` as %s or as a superuser',
        p_function_name, v_pid, v_role, current_user, sqlerrm, v_pid, v_role
      );
  end;
  raise warning 'ended backend % of the role %, in which a run of "%" had its row locked',
    v_pid, v_role, p_function_name
    using errcode = 'CL005';
  return null;
end
$$;

-- Writes an alert about a row, once for each address; returns whether it was written. Never raises: an alert must not
-- keep a run from ending. The caller has the row locked, so the alerts about it are in order.
create or replace function public.write_refresh_alert(
  p_addresses text[],
  p_function_name text,
  p_kind text,
  p_since timestamptz default null,
  p_times integer default null,
  p_error text default null,
  p_due_at timestamptz default null
) returns boolean
language plpgsql
as $$
begin
  insert into public.refresh_alerts (address, function_name, kind, since, times, error, due_at)
  select
    wanted.address,
    p_function_name,
    p_kind,
    p_since,
    p_times,
    left(p_error, 2000),
    case when p_due_at between '0001-01-02' and '9999-12-30' then p_due_at end
  from unnest(p_addresses) as wanted (address)
  where wanted.address is not null;
  return found;
exception
  when others then
    raise warning 'an alert of "%" could not be written: %', p_function_name, sqlerrm using errcode = 'CL007';
    return false;
end
$$;

-- Decides, with the end of a run, which alert to write about its row: that it starts to fail, that its breaker opens,
-- that it is well again. Each comes once until the row is well; returns what has been told by then. The row is as it
-- was before the end, and locked. Without an address nothing is written: a process that has one does so later.
create or replace function public.tell_refresh_end(
  p_row public.refresh_schedule,
  p_addresses text[],
  p_status text,
  p_error text,
  p_failures integer,
  p_at timestamptz,
  p_breaker_until timestamptz
) returns text[]
language plpgsql
as $$
declare
  v_told text[] := p_row.told;
  v_since timestamptz := coalesce(p_row.incident_at, p_at);
  v_kind text := case
    when p_status in ('success', 'partial') then 'recovered'
    when p_status = 'failed' and p_breaker_until is not null then 'breaker_open'
    when p_status = 'failed' then 'failing'
  end;
begin
  if coalesce(cardinality(p_addresses), 0) = 0 then
    return v_told;
  end if;
  v_told := v_told || public.tell_refresh_abandoned(p_row, p_addresses);
  -- Nothing is new: it was well before, or this has been told, or it was interrupted, which needs no alert.
  if v_kind is null
    or v_kind = any (v_told)
    or (v_kind = 'recovered' and cardinality(v_told) = 0)
  then
    return v_told;
  end if;
  if not public.write_refresh_alert(
    p_addresses => p_addresses,
    p_function_name => p_row.function_name,
    p_kind => v_kind,
    p_since => case when v_kind = 'recovered' then p_row.incident_at else v_since end,
    p_times => p_failures,
    p_error => p_error,
    p_due_at => p_breaker_until
  ) then
    return v_told;
  end if;
  return case v_kind
    when 'recovered' then '{}'
    when 'failing' then v_told || array['failing']
    -- An open breaker says that it fails, too.
    else array_remove(v_told, 'failing') || array['failing', v_kind]
  end;
end
$$;

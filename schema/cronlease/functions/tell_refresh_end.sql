-- Decides, with the end of a run, what is to be told of its row: that it starts to fail, that its breaker opens, that
-- it is well again. Each once until it is well; answers what has been told by then. The row is as it was before the
-- end, and locked. Without an address nothing is told, and whoever has one tells it later.
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
  if v_kind = 'recovered' then
    if cardinality(v_told) > 0
      and public.write_refresh_alert(
        p_addresses => p_addresses,
        p_function_name => p_row.function_name,
        p_kind => v_kind,
        p_since => p_row.incident_at
      )
    then
      v_told := '{}';
    end if;
  elsif v_kind is not null
    and v_kind <> all (v_told)
    and public.write_refresh_alert(
      p_addresses => p_addresses,
      p_function_name => p_row.function_name,
      p_kind => v_kind,
      p_since => v_since,
      p_times => p_failures,
      p_error => p_error,
      p_due_at => p_breaker_until
    )
  then
    -- That a breaker opens says that it fails, too.
    v_told := array_remove(v_told, 'failing') || array['failing', nullif(v_kind, 'failing')];
    v_told := array_remove(v_told, null);
  end if;
  return v_told;
end
$$;

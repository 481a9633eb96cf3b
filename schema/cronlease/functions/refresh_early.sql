-- How early a hit may come for a slot of that cadence: a tenth of a beat, up to 30 s, and 5 s for a cron.
create or replace function public.refresh_early(p_cadence text) returns interval
language sql
immutable
as $$
  select case
    when position(' ' in p_cadence) > 0 then interval '5 seconds'
    when p_cadence ~ '^[0-9]{1,9}(\.[0-9]{1,6})?[smhd]$' then least(p_cadence::interval / 10, interval '30 seconds')
    else interval '0'
  end
$$;

-- When a run that is due at that time begins to count as late; null for never. Twice the interval later, at least ten
-- minutes, unless p_late_after says how long: only the caller knows the interval of a cron, and a trigger that owns its
-- schedule is never late by itself.
create or replace function public.refresh_late_at(
  p_next_run_at timestamptz,
  p_cadence text,
  p_once boolean,
  p_late_after interval
) returns timestamptz
language sql
immutable
as $$
  select case
    when isfinite(p_next_run_at) then
      p_next_run_at + case
        when p_late_after is not null then least(p_late_after, interval '36500 days')
        when p_once then interval '10 minutes'
        when p_cadence ~ '^([0-9.]+[smhd]\.\.)?[0-9]{1,9}(\.[0-9]{1,6})?[smhd]$' then
          greatest(
            interval '10 minutes',
            2 * least(regexp_replace(p_cadence, '^.*[.][.]', '')::interval, interval '3650 days')
          )
      end
  end
$$;

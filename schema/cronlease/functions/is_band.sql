-- Whether a text is a band or a beat that the code can read: low..high, or one duration; up to ten years.
-- The digits are written out: in some locales \d matches more than an interval can be made of.
create or replace function public.is_band(p_text text) returns boolean
language sql
immutable
as $$
  select case
    when p_text !~ '^[0-9]{1,9}(\.[0-9]{1,6})?[smhd](\.\.[0-9]{1,9}(\.[0-9]{1,6})?[smhd])?$' then false
    else split_part(p_text, '..', 1)::interval
      <= least(nullif(split_part(p_text, '..', 2), '')::interval, interval '3650 days')
      and coalesce(nullif(split_part(p_text, '..', 2), '')::interval <= interval '3650 days', true)
  end
$$;

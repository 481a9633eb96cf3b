-- Whether a source of that name was ever asked, or has openings.
select
  exists (select from public.opening_sources where name = %(source)s)
  or exists (select from public.opening_signals where source = %(source)s)

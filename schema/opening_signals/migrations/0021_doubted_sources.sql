-- A source whose openings have vanished in an unlikely way is doubted until a later run says the same.
alter table public.opening_sources
  add column doubt text,
  add column doubted_at timestamptz,
  add constraint a_doubt_has_a_time check ((doubt is null) = (doubted_at is null));

comment on column public.opening_sources.doubt is
  'why its last complete answer closed nothing: another run has to say the same';
comment on column public.opening_sources.doubted_at is
  'since when it is doubted';

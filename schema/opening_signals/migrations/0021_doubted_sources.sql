-- A source whose openings have vanished in an unlikely way is doubted until a later run says the same; and one that
-- has asked to be left alone is, even when all others wait, too.
alter table public.opening_sources
  add column asked_to_wait boolean not null default false,
  add column doubt text,
  add column doubted_at timestamptz,
  add constraint a_doubt_has_a_time check ((doubt is null) = (doubted_at is null));

comment on column public.opening_sources.asked_to_wait is
  'next_fetch_at is what the source itself asked for (Retry-After), and no backoff of ours';
comment on column public.opening_sources.doubt is
  'why its last complete answer closed nothing: another run has to say the same';
comment on column public.opening_sources.doubted_at is
  'since when it is doubted';

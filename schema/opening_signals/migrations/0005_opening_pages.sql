-- What each source said at its last merge, page by page, so that a page that comes again need not be compared
-- opening by opening.
create table public.opening_pages (
  source text not null,
  digest bytea not null,
  openings integer not null,
  fingerprint numeric not null,
  primary key (source, digest)
);

comment on table public.opening_pages is
  'the pages of each source that together are just its open openings. True only while their openings and fingerprints'
  ' add up to those of opening_signals: whoever writes there need not know of this table';
comment on column public.opening_pages.digest is
  'of the keys and content hashes of the page as it came';
comment on column public.opening_pages.fingerprint is
  'the sum of opening_fingerprint over the page';

alter table public.opening_staging_pages
  add column digest bytea,
  add column openings integer,
  add column fingerprint numeric,
  add column trusted boolean;

comment on column public.opening_staging_pages.openings is
  'how many openings its keys are: one that was on the page twice is one';
comment on column public.opening_staging_pages.trusted is
  'of the first page of a source: whether its opening_pages were true when it came';

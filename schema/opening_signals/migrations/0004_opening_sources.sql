-- What is remembered of each source between runs, and a lean place for what a run saw unchanged.
create table public.opening_sources (
  name text primary key,
  definition text,
  items bigint,
  last_ok_at timestamptz,
  last_seen_at timestamptz,
  failures integer not null default 0,
  last_error text,
  etag text,
  last_modified text,
  next_fetch_at timestamptz,
  constraint failures_not_negative check (failures >= 0),
  constraint only_a_failing_source_waits check (next_fetch_at is null or failures > 0)
);

comment on table public.opening_sources is
  'one row per source that was ever asked; written only by the run that holds the lease';
comment on column public.opening_sources.definition is
  'hash of its entry in the sources file: what was remembered of another entry is not used for this one';
comment on column public.opening_sources.items is
  'how many openings its last complete answer had';
comment on column public.opening_sources.last_ok_at is
  'when it last answered to the end, or that nothing had changed';
comment on column public.opening_sources.last_seen_at is
  'when its open openings were last known to be there';
comment on column public.opening_sources.failures is
  'failed fetches in a row';
comment on column public.opening_sources.next_fetch_at is
  'not asked before; null: asked by every run';

-- Only a closed opening has a time of its own; the others share that of their source, so that an unchanged
-- reload has no row to write.
alter table public.opening_signals
  add column if not exists last_seen_at timestamptz;

comment on column public.opening_signals.last_seen_at is
  'when it was last there, of a closed opening; null: see the view openings';

-- The keys of one page, in one row. Never compressed: that would cost more than it saves in the seconds it is kept.
create unlogged table public.opening_staging_pages (
  request_id uuid not null,
  source text not null,
  position bigint not null,
  external_ids text[] not null,
  differing integer not null
);

alter table public.opening_staging_pages
  alter column external_ids set storage external;

comment on table public.opening_staging_pages is
  'what live runs have seen: page by page the keys, and how many of their openings are in opening_staging,'
  ' at the same position, because they are not stored just so';

comment on column public.opening_signals.changed_at is
  'when its content last changed, or it returned after it was closed; null: not since the opening was first seen';

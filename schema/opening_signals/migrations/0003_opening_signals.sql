-- The openings, and the place where a run collects them before its merge. An older table of that name
-- (source, external_id, title, url, first_seen_at) is grown in place; its rows are kept.
create table if not exists public.opening_signals (
  source text,
  external_id text,
  title text,
  url text,
  first_seen_at timestamptz,
  primary key (source, external_id)
);

-- A time without a zone means another moment in every session; it is read as UTC.
do $$
begin
  if exists (
    select
    from information_schema.columns c
    where c.table_schema = 'public'
      and c.table_name = 'opening_signals'
      and c.column_name = 'first_seen_at'
      and c.data_type = 'timestamp without time zone'
  ) then
    alter table public.opening_signals
      alter column first_seen_at drop default,
      alter column first_seen_at type timestamptz using first_seen_at at time zone 'UTC';
  end if;
end
$$;

update public.opening_signals
set first_seen_at = transaction_timestamp()
where first_seen_at is null;

alter table public.opening_signals
  add column if not exists organization text,
  add column if not exists location text,
  add column if not exists posted_at timestamptz,
  add column if not exists payload jsonb,
  add column if not exists content_hash bytea,
  add column if not exists changed_at timestamptz,
  add column if not exists closed_at timestamptz,
  alter column source drop default,
  alter column external_id drop default,
  alter column title drop not null,
  alter column title drop default,
  alter column url drop not null,
  alter column url drop default,
  alter column first_seen_at set default transaction_timestamp(),
  alter column first_seen_at set not null,
  add constraint content_hash_is_a_sha256 check (octet_length(content_hash) = 32);

comment on column public.opening_signals.content_hash is
  'of all that the feed says of the opening; null: from before this column, the next merge writes it';
comment on column public.opening_signals.changed_at is
  'when the content hash last changed; null: not since the opening was first seen';
comment on column public.opening_signals.closed_at is
  'when its source no longer had it; null: open';

create or replace function public.keep_first_seen_at()
returns trigger
language plpgsql
as $$
begin
  if tg_op = 'INSERT' then
    new.first_seen_at := transaction_timestamp();
  else
    new.first_seen_at := old.first_seen_at;
  end if;
  return new;
end
$$;

-- The `when` clauses keep plpgsql out of a bulk load: it runs only when somebody tries.
drop trigger if exists first_seen_at_is_set_by_the_database on public.opening_signals;
create trigger first_seen_at_is_set_by_the_database
  before insert on public.opening_signals
  for each row
  when (new.first_seen_at is distinct from transaction_timestamp())
  execute function public.keep_first_seen_at();

drop trigger if exists first_seen_at_never_changes on public.opening_signals;
create trigger first_seen_at_never_changes
  before update on public.opening_signals
  for each row
  when (new.first_seen_at is distinct from old.first_seen_at)
  execute function public.keep_first_seen_at();

-- Unlogged: a crash of the server empties it, and the run that filled it is gone then, too.
-- No key: it would only slow COPY. The merge resolves duplicates, the highest position wins.
create unlogged table public.opening_staging (
  request_id uuid not null,
  source text not null,
  position bigint not null,
  external_id text not null,
  title text,
  organization text,
  location text,
  url text,
  posted_at timestamptz,
  payload jsonb,
  content_hash bytea not null
);

comment on table public.opening_staging is
  'what live runs have fetched and not merged yet; emptied by the merge, or by a later run when one died';

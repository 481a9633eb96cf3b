-- What counts as a change is what is shown; which field changed, from what to what, is kept for as long as runs are.
alter table public.opening_signals
  add column if not exists department text,
  add column if not exists remote boolean,
  add column if not exists payload_hash bytea;

comment on column public.opening_signals.content_hash is
  'of what is shown: title, organization, location, url, posted_at, department and remote';
comment on column public.opening_signals.payload_hash is
  'of the payload, which is kept up to date and never counts as a change; null: the row was written by version 0.1, or'
  ' is older, and does not know its department and whether it is remote';
comment on column public.opening_signals.changed_at is
  'when what is shown last changed, or it returned after it was closed; null: not since the opening was first seen';

alter table public.opening_staging
  add column department text,
  add column remote boolean,
  add column payload_hash bytea;

create table public.opening_changes (
  changed_at timestamptz not null default transaction_timestamp(),
  source text not null,
  external_id text not null,
  field text not null,
  old_value text,
  new_value text
);

create index opening_changes_by_time on public.opening_changes (changed_at);

comment on table public.opening_changes is
  'one row per field of an opening that changed; rows older than CRONLEASE_RETENTION are deleted';

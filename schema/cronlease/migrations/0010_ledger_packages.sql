-- Whose each migration is. Names stay unique, so that version 0.1 goes on reading and writing this table.
alter table public.cronlease_migrations add column package text not null default 'cronlease';

comment on column public.cronlease_migrations.package is
  'whose schema/ the migration is from; migrate corrects it where a version that did not know of packages wrote the row';

-- Which run is fetching a source right now, so that a source that kills the process leaves a trace.
alter table public.opening_sources
  add column fetching_run uuid,
  add column fetching_definition text,
  add column fetching_alone boolean not null default false;

comment on column public.opening_sources.fetching_run is
  'the run that is fetching it; when that run was abandoned, it may have died of this source';
comment on column public.opening_sources.fetching_definition is
  'hash of the entry that is or was being fetched: another entry is not suspected';
comment on column public.opening_sources.fetching_alone is
  'it is suspected, and fetched while nothing else is; ends when a fetch of it does';

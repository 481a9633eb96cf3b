-- One row per scheduled thing. An older table of that name (function_name, next_run_at, last_run_at,
-- last_status) is grown in place; its rows are kept.
create table if not exists public.refresh_schedule (
  function_name text primary key,
  next_run_at timestamptz,
  last_run_at timestamptz,
  last_status text
);

-- A time without a zone means another moment in every session; such columns are read as UTC.
do $$
declare
  v_column text;
begin
  for v_column in
    select c.column_name
    from information_schema.columns c
    where c.table_schema = 'public'
      and c.table_name = 'refresh_schedule'
      and c.data_type = 'timestamp without time zone'
  loop
    execute format(
      'alter table public.refresh_schedule alter column %1$I type timestamptz using %1$I at time zone ''UTC''',
      v_column
    );
  end loop;
end
$$;

alter table public.refresh_schedule
  add column if not exists id integer generated always as identity,
  add column if not exists action text,
  add column if not exists args jsonb not null default '{}',
  add column if not exists every text,
  add column if not exists once boolean not null default false,
  add column if not exists completed_at timestamptz,
  add column if not exists last_error text,
  add column if not exists failures integer not null default 0,
  add column if not exists abandoned integer not null default 0,
  add column if not exists run_count bigint not null default 0,
  add column if not exists locked_until timestamptz,
  add column if not exists locked_by text,
  add column if not exists fence bigint not null default 0,
  add column if not exists paused_at timestamptz,
  add column if not exists paused_reason text,
  alter column next_run_at drop not null,
  alter column next_run_at drop default,
  alter column last_run_at drop not null,
  alter column last_run_at drop default,
  alter column last_status drop not null,
  alter column last_status drop default;

update public.refresh_schedule
set action = function_name
where action is null;

alter table public.refresh_schedule
  alter column action set not null,
  add constraint id_is_unique unique (id),
  add constraint args_is_an_object check (jsonb_typeof(args) = 'object'),
  add constraint failures_not_negative check (failures >= 0),
  add constraint abandoned_not_negative check (abandoned >= 0),
  add constraint fence_not_negative check (fence >= 0),
  add constraint lock_has_a_holder check ((locked_by is null) = (locked_until is null)),
  add constraint only_a_one_shot_completes check (completed_at is null or once);

create index refresh_schedule_due
  on public.refresh_schedule (next_run_at nulls first)
  where completed_at is null and paused_at is null;

create index refresh_schedule_lock_expiry
  on public.refresh_schedule (locked_until)
  where locked_until is not null;

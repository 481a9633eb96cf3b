-- What refresh_prices writes to. It is run before each deploy, so it must also work where all of this is there.
create table if not exists prices (
  name text primary key,
  price numeric not null,
  seen_at timestamptz not null default now()
);

-- The function's login, where it is not the owner of the tables: `cronlease migrate --roles` makes this role. Migrate
-- and the emulator say here which one that is: with CRONLEASE_SCHEMA=alpha it is cronlease_runner_alpha.
do $$
declare
  v_runner text := coalesce(nullif(current_setting('cronlease.runner', true), ''), 'cronlease_runner');
begin
  if exists (select from pg_roles where rolname = v_runner) then
    execute format('grant select, insert, update on prices to %I', v_runner);
  end if;
end
$$;

-- What refresh_prices writes to. It is run before each deploy, so it must also work where all of this is there.
create table if not exists prices (
  name text primary key,
  price numeric not null,
  seen_at timestamptz not null default now()
);

-- The function's login, where it is not the owner of the tables: `cronlease migrate --roles` makes this role.
do $$
begin
  if exists (select from pg_roles where rolname = 'cronlease_runner') then
    grant select, insert, update on prices to cronlease_runner;
  end if;
end
$$;

-- The tables of the examples. `cronlease migrate --setup schema.sql` runs this file; so do the tests.
create table if not exists rates (
  currency text primary key,
  rate numeric not null,
  seen_at timestamptz not null default now()
);
create table if not exists orders (
  id int primary key,
  state text not null,
  ordered_at timestamptz not null
);
create table if not exists sessions (
  id int primary key,
  expires_at timestamptz not null
);
create table if not exists visits (
  page text not null,
  visited_at timestamptz not null
);
create table if not exists visits_per_hour (
  until timestamptz not null,
  page text not null,
  visits bigint not null,
  primary key (until, page)
);
create table if not exists prices (
  name text primary key,
  price numeric not null
);

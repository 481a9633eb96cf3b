-- For a client that reaches the database only through the REST API: each request is a transaction of its own, so rows
-- that are sent in one request and a run that is finished in the next cannot be fenced. This function does both in one
-- transaction. Copy it, put your table and columns in, and run it as postgres after cronlease.sql; deploy/README.md
-- shows how it is called.
create table if not exists public.prices (
  name text primary key,
  price numeric not null,
  seen_at timestamptz not null default now()
);
alter table public.prices enable row level security;

-- Stores the rows of a run and finishes it: all of it or nothing. Raises CL001 when the run has lost its lease.
-- Called again by a client that did not get the answer, it writes nothing and returns how the run ended.
create or replace function public.store_prices(
  p_request_id uuid,
  p_fence bigint,
  p_rows jsonb,
  p_delay interval default '10 minutes',
  out status text,
  out next_run_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_fetched bigint := 0;
  v_inserted bigint := 0;
  v_updated bigint := 0;
begin
  begin
    -- First of all: from here to the commit nobody can take the lease.
    perform public.assert_lease(
      p_function_name => 'refresh_prices', p_request_id => p_request_id, p_fence => p_fence
    );
  exception
    when sqlstate 'CL001' then
      -- The run ended already, which finish_refresh_run returns below, or was replaced, for which it raises.
      p_rows := '[]';
  end;

  with merged as (
    insert into public.prices as p (name, price)
    select distinct on (r.name) r.name, r.price
    from jsonb_to_recordset(p_rows) as r (name text, price numeric)
    on conflict (name) do update set price = excluded.price, seen_at = now()
    returning p.xmax = 0 as is_new
  )
  select count(*), count(*) filter (where m.is_new), count(*) filter (where not m.is_new)
  into v_fetched, v_inserted, v_updated
  from merged m;

  select f.status, f.next_run_at
  into status, next_run_at
  from public.finish_refresh_run(
    p_function_name => 'refresh_prices',
    p_request_id => p_request_id,
    p_fence => p_fence,
    p_status => 'success',
    p_delay => p_delay,
    p_fetched => v_fetched,
    p_inserted => v_inserted,
    p_updated => v_updated
  ) f;
end
$$;

-- Supabase grants whatever is made in public to the roles of the REST API.
revoke all on table public.prices from public, anon, authenticated;
revoke all on function public.store_prices from public, anon, authenticated;
grant execute on function public.store_prices to service_role;

-- The schedule, due from now on.
select public.ensure_schedule(p_function_name => 'refresh_prices');

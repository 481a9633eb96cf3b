-- The schedules and the newest runs as one document, for GET /status: one round trip.
create or replace function public.read_refresh_status(p_runs integer default 20) returns jsonb
language sql
stable
set lock_timeout = '2s'
as $$
  select jsonb_build_object(
    'schedules', coalesce(
      (select jsonb_agg(to_jsonb(s) order by s.function_name) from public.refresh_status s), '[]'
    ),
    'runs', coalesce(
      (
        select jsonb_agg(to_jsonb(r) order by r.started_at desc)
        from (select * from public.refresh_runs order by started_at desc limit p_runs) r
      ),
      '[]'
    )
  )
$$;

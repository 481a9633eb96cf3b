-- One schedule as one document: its row, its newest runs, what people did to it, and what time it is; the schedule is
-- null if there is none. Args are included only with p_with_args: not everybody may see them.
create or replace function public.read_refresh_schedule(
  p_function_name text,
  p_runs integer default 5,
  p_with_args boolean default true
) returns jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
set jit = off
as $$
  select jsonb_build_object(
    'now', clock_timestamp(),
    'schedule', (
      select to_jsonb(s)
        || jsonb_build_object(
          'health', public.refresh_health(t, clock_timestamp()),
          'every_is_readable', coalesce(public.is_band(t.every), public.is_cron(t.cron), true),
          'args_are_readable', public.args_mistake(p_args => t.args) is null
        )
        || case
          when p_with_args then jsonb_build_object('args', public.readable_args(p_args => t.args))
          else '{}'
        end
      from public.refresh_status s
      join public.refresh_schedule t on t.function_name = s.function_name
      where s.function_name = p_function_name
    ),
    'runs', (
      select coalesce(
        jsonb_agg(
          case
            when p_with_args then to_jsonb(r) || jsonb_build_object('args', public.readable_args(p_args => r.args))
            else to_jsonb(r) - 'args'
          end
          order by r.fence desc
        ),
        '[]'
      )
      from (
        select *
        from public.refresh_runs n
        where n.function_name = p_function_name
        order by n.fence desc
        limit p_runs
      ) r
    ),
    'operations', (
      select coalesce(jsonb_agg(to_jsonb(o) - 'function_name' order by o.id desc), '[]')
      from (
        select *
        from public.refresh_operations n
        where n.function_name = p_function_name
        order by n.id desc
        limit 20
      ) o
    )
  )
$$;

-- What the status page shows of all schedules, as one document: how many are in which health, up to a thousand each,
-- and one page of those in that health, or of all, each with its newest runs. What needs a person comes first. A search
-- finds names that begin with the text, and among the first p_reach names those that contain it. However many schedules
-- there are, no more than p_reach rows of each kind are read.
create or replace function public.read_refresh_page(
  p_search text default null,
  p_health text default null,
  p_page integer default 1,
  p_size integer default 500,
  p_runs integer default 40,
  p_reach integer default 20000
) returns jsonb
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- What is shown lies at one end of an index, whatever the planner guesses.
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
-- An index is searched for a pattern only if the plan is made for that pattern.
set plan_cache_mode = force_custom_plan
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_size integer := greatest(1, least(coalesce(p_size, 500), 500));
  v_skip integer := (greatest(1, least(coalesce(p_page, 1), 20)) - 1) * v_size;
  v_most integer := greatest(v_skip + v_size + 1, 1000);
  v_search text := lower(coalesce(p_search, ''));
  v_pattern text := replace(replace(replace(v_search, '\', '\\'), '%', '\%'), '_', '\_') || '%';
  v_complete boolean := true;
  v_names text[];
  v_healths text[];
  v_chosen text[];
begin
  if v_search <> '' then
    v_complete := (
      select count(*) < p_reach
      from (
        select
        from public.refresh_schedule s
        order by s.function_name
        limit p_reach
      ) first
    );
    v_names := array(
      select found.function_name
      from (
        (
          select s.function_name, 1 as place
          from public.refresh_schedule s
          where lower(s.function_name) like v_pattern
          limit v_most
        )
        union all
        (
          select first.function_name, 2
          from (
            select s.function_name
            from public.refresh_schedule s
            order by s.function_name
            limit p_reach
          ) first
          where position(v_search in lower(first.function_name)) > 0
          limit v_most
        )
      ) found
      group by found.function_name
      order by min(found.place), found.function_name
    );
    select array_agg(listed.health), array_agg(listed.function_name)
    into v_healths, v_names
    from (
      select public.refresh_health(s, v_now) as health, s.function_name
      from unnest(v_names) with ordinality as wanted (function_name, place)
      join public.refresh_schedule s on s.function_name = wanted.function_name
      order by wanted.place
    ) listed;
  else
    select
      array_agg(found.health order by found.place, found.turn),
      array_agg(found.function_name order by found.place, found.turn)
    into v_healths, v_names
    from (
      (
        select 'breaker_open' as health, s.function_name, 1 as place, s.turn
        from (
          select
            r as schedule,
            r.function_name,
            row_number() over (order by r.breaker_until rows unbounded preceding) as turn
          from public.refresh_schedule r
          where r.breaker_until is not null
            and r.completed_at is null
            and r.paused_at is null
          order by r.breaker_until
          limit p_reach
        ) s
        where public.refresh_health(s.schedule, v_now) = 'breaker_open'
        limit v_most
      )
      union all
      (
        select 'failing', s.function_name, 2, s.turn
        from (
          select
            r as schedule,
            r.function_name,
            row_number() over (order by r.last_run_at desc rows unbounded preceding) as turn
          from public.refresh_schedule r
          where r.failures > 0
            and r.completed_at is null
            and r.paused_at is null
          order by r.last_run_at desc
          limit p_reach
        ) s
        where public.refresh_health(s.schedule, v_now) = 'failing'
        limit v_most
      )
      union all
      (
        select 'stale', s.function_name, 3, s.turn
        from (
          select
            r as schedule,
            r.function_name,
            row_number() over (order by r.locked_until rows unbounded preceding) as turn
          from public.refresh_schedule r
          where r.locked_until is not null
            and r.paused_at is null
          order by r.locked_until
          limit p_reach
        ) s
        where public.refresh_health(s.schedule, v_now) = 'stale'
        limit v_most
      )
      union all
      (
        select 'late', s.function_name, 4, s.turn
        from (
          select
            r as schedule,
            r.function_name,
            row_number() over (order by r.late_at rows unbounded preceding) as turn
          from public.refresh_schedule r
          where r.late_at is not null
            and r.completed_at is null
            and r.paused_at is null
            and r.breaker_until is null
          order by r.late_at
          limit p_reach
        ) s
        where public.refresh_health(s.schedule, v_now) = 'late'
        limit v_most
      )
      union all
      (
        select 'running', s.function_name, 5, s.turn
        from (
          select
            r as schedule,
            r.function_name,
            row_number() over (order by r.locked_until desc rows unbounded preceding) as turn
          from public.refresh_schedule r
          where r.locked_until is not null
          order by r.locked_until desc
          limit p_reach
        ) s
        where public.refresh_health(s.schedule, v_now) = 'running'
        limit v_most
      )
      union all
      (
        select 'ok', s.function_name, 6, s.turn
        from (
          select
            r as schedule,
            r.function_name,
            row_number() over (order by r.next_run_at nulls first rows unbounded preceding) as turn
          from public.refresh_schedule r
          where r.completed_at is null
            and r.paused_at is null
          order by r.next_run_at nulls first
          limit p_reach
        ) s
        where public.refresh_health(s.schedule, v_now) = 'ok'
        limit v_most
      )
      union all
      (
        select 'paused', s.function_name, 7, s.turn
        from (
          select
            r as schedule,
            r.function_name,
            row_number() over (order by r.paused_at desc rows unbounded preceding) as turn
          from public.refresh_schedule r
          where r.paused_at is not null
          order by r.paused_at desc
          limit p_reach
        ) s
        where public.refresh_health(s.schedule, v_now) = 'paused'
        limit v_most
      )
      union all
      (
        select 'completed', s.function_name, 8, s.turn
        from (
          select
            r as schedule,
            r.function_name,
            row_number() over (order by r.completed_at desc rows unbounded preceding) as turn
          from public.refresh_schedule r
          where r.completed_at is not null
          order by r.completed_at desc
          limit p_reach
        ) s
        where public.refresh_health(s.schedule, v_now) = 'completed'
        limit v_most
      )
    ) found;
  end if;

  v_chosen := array(
    select each.function_name
    from unnest(v_healths, v_names) with ordinality as each (health, function_name, place)
    where p_health is null or each.health = p_health
    order by each.place
    offset v_skip
    limit v_size + 1
  );
  return jsonb_build_object(
    'now', v_now,
    'counts', (
      select coalesce(jsonb_object_agg(counted.health, counted.count), '{}')
      from (
        select each.health, least(count(*), 1000) as count
        from unnest(v_healths) as each (health)
        group by each.health
      ) counted
    ),
    'more', coalesce(array_length(v_chosen, 1) > v_size, false),
    'complete', v_complete,
    'schedules', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'function_name', s.function_name,
        'action', s.action,
        'health', public.refresh_health(s, v_now),
        'next_run_at', s.next_run_at,
        'last_run_at', s.last_run_at,
        'last_status', s.last_status,
        'last_error', left(s.last_error, 300),
        'failures', s.failures,
        'locked_until', s.locked_until,
        'paused_at', s.paused_at,
        'paused_reason', left(s.paused_reason, 300),
        'completed_at', s.completed_at,
        'runs', newest.runs
      ) order by wanted.place), '[]')
      from unnest(v_chosen[:v_size]) with ordinality as wanted (function_name, place)
      join public.refresh_schedule s on s.function_name = wanted.function_name
      cross join lateral (
        select coalesce(jsonb_agg(jsonb_build_array(
          r.status,
          round(extract(epoch from r.finished_at - r.started_at)::numeric, 3)
        ) order by r.fence), '[]') as runs
        from (
          select *
          from public.refresh_runs n
          where n.function_name = s.function_name
          order by n.fence desc
          limit p_runs
        ) r
      ) newest
    )
  );
end
$$;

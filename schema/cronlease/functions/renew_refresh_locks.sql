-- Extends those of these leases that are still ours, in one statement that waits for nobody. Returns for each what
-- renew_refresh_lock does: renewed, busy (its row is locked, so it was passed over, and nobody else can take it
-- meanwhile) or lost. The arrays are parallel.
create or replace function public.renew_refresh_locks(
  p_function_names text[],
  p_request_ids uuid[],
  p_fences bigint[],
  p_leases interval[],
  out request_id uuid,
  out answer text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- Every row is found by its name. With old or missing statistics the planner must not read the table instead.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set jit = off
-- One plan serves every call, whatever its arrays are like: making one costs more than the renewals.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_locked integer[];
  v_mistake text;
begin
  select case
    when held.lease > interval '1 day' then format('a lease is at most a day, not %s', held.lease)
    else format('a lease must be longer than zero, not %s', coalesce(held.lease::text, 'null'))
  end
  into v_mistake
  from unnest(p_request_ids, p_leases) as held (request_id, lease)
  where held.lease is null or held.lease <= interval '0' or held.lease > interval '1 day'
  limit 1;
  if v_mistake is not null then
    raise exception '%', v_mistake using errcode = '22023';
  end if;
  v_locked := array(
    select s.id
    from unnest(p_function_names, p_request_ids, p_fences) as held (function_name, request_id, fence)
    join public.refresh_schedule s
      on s.function_name = held.function_name
      and s.locked_by = held.request_id::text
      and s.fence = held.fence
    for no key update of s skip locked
  );
  update public.refresh_schedule s
  set locked_until = clock_timestamp() + held.lease
  from unnest(p_function_names, p_request_ids, p_fences, p_leases) as held (function_name, request_id, fence, lease)
  where s.function_name = held.function_name
    and s.locked_by = held.request_id::text
    and s.fence = held.fence
    and s.id = any (v_locked);
  return query
  select
    held.request_id,
    case when s.id is null then 'lost' when s.id = any (v_locked) then 'renewed' else 'busy' end
  from unnest(p_function_names, p_request_ids, p_fences) as held (function_name, request_id, fence)
  left join public.refresh_schedule s
    on s.function_name = held.function_name
    and s.locked_by = held.request_id::text
    and s.fence = held.fence;
end
$$;

-- Creates the row of a registered function; returns created, exists or locked. Locked: another hit is
-- creating it right now, and an insert would wait for that one's transaction. A function whose trigger owns its
-- schedule passes hit: run-due and worker leave such a row alone from the beginning.
create or replace function public.ensure_schedule(
  p_function_name text,
  p_action text default null,
  p_args jsonb default '{}',
  p_every text default null,
  p_planned_from text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
  v_mistake text := public.args_mistake(p_args => p_args);
begin
  if v_mistake is not null then
    raise exception '%', v_mistake using errcode = '22023';
  end if;
  if exists (select from public.refresh_schedule s where s.function_name = p_function_name) then
    return 'exists';
  end if;
  if not pg_try_advisory_xact_lock(public.refresh_lock_key('create'), hashtext(p_function_name)) then
    return 'locked';
  end if;
  -- A row that was deleted and comes back goes on counting: no old holder can match its fence.
  insert into public.refresh_schedule (function_name, action, args, every, planned_from, fence)
  select
    p_function_name,
    coalesce(p_action, p_function_name),
    p_args,
    p_every,
    p_planned_from,
    coalesce(max(r.fence), 0)
  from public.refresh_runs r
  where r.function_name = p_function_name
  on conflict (function_name) do nothing;
  return case when found then 'created' else 'exists' end;
end
$$;

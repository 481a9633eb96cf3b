-- What these requests hold, each lease extended, for a caller whose first answer was lost: same runs, same fences. Null
-- where none of them has had a run. For take_due_refreshes.
create or replace function public.held_refreshes(
  p_request_ids uuid[],
  p_actions text[],
  p_leases interval[],
  p_trigger text,
  p_max_run interval
) returns jsonb
language plpgsql
as $$
declare
  v_run record;
  v_claim record;
  -- An array, because a jsonb is taken apart and put together again for each that is added.
  v_held jsonb[];
begin
  for v_run in
    select run.request_id, run.function_name, run.action, s.locked_by = run.request_id::text as is_held
    from unnest(p_request_ids) as asked (request_id)
    -- Each run is looked up by itself: with old statistics, the planner must not read all of the history.
    cross join lateral (
      select r.request_id, r.function_name, r.action
      from public.refresh_runs r
      where r.request_id = asked.request_id
      offset 0
    ) run
    left join lateral (
      select held.id, held.locked_by
      from public.refresh_schedule held
      where held.function_name = run.function_name
      offset 0
    ) s on true
    -- Whoever locks many rows locks them in this order.
    order by s.id
  loop
    v_held := coalesce(v_held, '{}');
    continue when v_run.is_held is not true;
    select t.* into v_claim
    from public.take_refresh_lock(
      p_function_name => v_run.function_name,
      p_request_id => v_run.request_id,
      p_lease => coalesce(p_leases[array_position(p_actions, v_run.action)], interval '5 minutes'),
      p_force => false,
      p_trigger => p_trigger,
      p_job_name => null::text,
      p_schedule_time => null::text,
      p_args => null::jsonb,
      p_backoff => null::interval,
      p_parent_request_id => null::uuid,
      p_actions => array[v_run.action],
      p_max_run => p_max_run
    ) t;
    if v_claim.acquired then
      select array_append(
        v_held,
        jsonb_build_object(
          'request_id', v_run.request_id,
          'fence', v_claim.fence,
          'locked_until', v_claim.locked_until,
          'next_run_at', v_claim.next_run_at,
          'action', v_claim.action,
          'args', v_claim.args,
          'every', v_claim.every,
          'failures', v_claim.failures,
          'function_name', v_run.function_name,
          'details', public.refresh_plan(s, clock_timestamp())
        )
      )
      into v_held
      from public.refresh_schedule s
      where s.function_name = v_run.function_name;
    end if;
  end loop;
  return to_jsonb(v_held);
end
$$;

-- name: trial
-- A run of each ending, and openings as a merge writes them, on tables that were there before. Rolled back by the
-- caller. An existing schedule is taken where there is one: a rule about names is its owner's own.
do $$
declare
  v_name text := (select min(s.function_name) from public.refresh_schedule s);
  v_request uuid;
  v_status text;
  v_claim record;
  v_last text;
begin
  if v_name is null then
    v_name := 'cronlease trial';
    perform public.ensure_schedule(p_function_name => v_name);
  end if;
  update public.refresh_schedule s
  set locked_by = null,
      locked_until = null,
      paused_at = null,
      completed_at = null
  where s.function_name = v_name;
  foreach v_status in array array['success', 'partial', 'failed', 'interrupted'] loop
    v_request := gen_random_uuid();
    select * into v_claim
    from public.acquire_refresh_lock(p_function_name => v_name, p_request_id => v_request, p_force => true);
    if v_claim.acquired is not true then
      raise exception 'a lease was refused as %', v_claim.reason;
    end if;
    perform public.finish_refresh_run(
      p_function_name => v_name, p_request_id => v_request, p_fence => v_claim.fence, p_status => v_status
    );
    select s.last_status into v_last
    from public.refresh_schedule s
    where s.function_name = v_name
      and s.locked_by is null;
    if v_last is distinct from v_status then
      raise exception 'the end of a run was not kept: % became %', v_status, v_last;
    end if;
  end loop;

  insert into public.opening_signals (source, external_id)
  values ('cronlease trial', '1'), ('cronlease trial', '2');
  update public.opening_signals o
  set title = 'trial',
      closed_at = clock_timestamp()
  where o.source = 'cronlease trial';
  perform
  from public.opening_signals o
  where o.source = 'cronlease trial'
  having count(*) = 2
    and count(o.closed_at) = 2
    and count(*) filter (where o.first_seen_at = transaction_timestamp()) = 2;
  if not found then
    raise exception 'openings are not kept as they were written';
  end if;
end
$$;

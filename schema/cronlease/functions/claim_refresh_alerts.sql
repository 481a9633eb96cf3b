-- The alerts to deliver to these addresses now, in order, at most p_limit for each. First it finds rows that are late,
-- or whose runs never finished, and writes alerts for them; a row that is busy is left to the next call. The alerts
-- that it returns are held for the caller: nobody else gets them meanwhile, nor any alert after them. What nobody
-- could deliver within a day is dropped: it is old news by then.
create or replace function public.claim_refresh_alerts(
  p_addresses text[],
  p_holder uuid,
  p_limit integer default 10
) returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- An index finds each of the few rows, whatever the planner guesses.
set enable_seqscan = off
set jit = off
as $$
declare
  v_row public.refresh_schedule;
  v_now timestamptz := clock_timestamp();
  v_address text;
  v_head bigint;
  v_claimed jsonb := '[]';
begin
  if coalesce(cardinality(p_addresses), 0) = 0 then
    return v_claimed;
  end if;
  for v_row in
    select s.*
    from public.refresh_schedule s
    where s.abandoned > 0
      and s.last_status = 'abandoned'
      and s.paused_at is null
      and 'abandoned' <> all (s.told)
    limit 100
    for no key update skip locked
  loop
    update public.refresh_schedule s
    set told = s.told || public.tell_refresh_abandoned(v_row, p_addresses)
    where s.id = v_row.id;
  end loop;
  for v_row in
    select s.*
    from public.refresh_schedule s
    where s.late_at <= v_now
      and s.completed_at is null
      and s.paused_at is null
      and s.breaker_until is null
      and 'late' <> all (s.told)
      and public.refresh_is_late(s, v_now)
    order by s.late_at
    limit 100
    for no key update skip locked
  loop
    if public.write_refresh_alert(
      p_addresses => p_addresses,
      p_function_name => v_row.function_name,
      p_kind => 'late',
      p_since => coalesce(v_row.incident_at, v_row.next_run_at, v_row.last_run_at),
      p_error => v_row.last_error,
      p_due_at => v_row.next_run_at
    ) then
      update public.refresh_schedule s
      set told = s.told || array['late'],
          incident_at = coalesce(s.incident_at, v_now)
      where s.id = v_row.id;
    end if;
  end loop;

  delete from public.refresh_alerts a
  where a.id = any (
    array(
      select old.id
      from public.refresh_alerts old
      where old.created_at < v_now - interval '1 day'
      order by old.id
      limit 1000
      for update skip locked
    )
  );
  foreach v_address in array p_addresses loop
    select a.id into v_head
    from public.refresh_alerts a
    where a.address = v_address
    order by a.id
    limit 1;
    perform
    from public.refresh_alerts a
    where a.id = v_head
    for update skip locked;
    -- Not found: there is nothing to deliver, or somebody else is claiming it.
    if found then
      with held as (
        update public.refresh_alerts a
        set held_by = p_holder,
            held_until = clock_timestamp() + interval '30 seconds',
            tries = a.tries + 1
        where a.id = any (
          array(
            select next.id
            from public.refresh_alerts next
            where next.address = v_address
              -- Nothing that somebody else is delivering, or has just failed to deliver, and nothing after it.
              and not exists (
                select
                from public.refresh_alerts earlier
                where earlier.address = v_address
                  and earlier.id <= next.id
                  and earlier.held_until > clock_timestamp()
              )
            order by next.id
            limit p_limit
            for update skip locked
          )
        )
        returning a.*
      )
      select v_claimed || coalesce(jsonb_agg(to_jsonb(h) - '{held_by,held_until}'::text[] order by h.id), '[]')
      into v_claimed
      from held h;
    end if;
  end loop;
  return v_claimed;
end
$$;

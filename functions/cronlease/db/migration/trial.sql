-- name: trial
-- On tables that were there before: a run with each kind of end, on a schedule that is there and on a new one. Rolled back
-- by the caller. Constraints that wait for the commit are checked now.
do $$
declare
  v_new text := 'cronlease_trial';
  v_name text;
  v_request uuid;
  v_status text;
  v_claim record;
  v_before timestamptz;
  v_row public.refresh_schedule;
begin
  set constraints all immediate;
  while exists (select from public.refresh_schedule s where s.function_name = v_new) loop
    v_new := v_new || '_';
  end loop;
  foreach v_name in array array_remove(
    array[(select min(s.function_name) from public.refresh_schedule s), v_new], null
  ) loop
    perform public.ensure_schedule(p_function_name => v_name);
    update public.refresh_schedule s
    set locked_by = null,
        locked_until = null,
        paused_at = null,
        completed_at = null,
        once = false
    where s.function_name = v_name;
    if not exists (select from public.refresh_schedule s where s.function_name = v_name) then
      raise exception 'a new row of refresh_schedule is not kept';
    end if;
    foreach v_status in array array['success', 'partial', 'failed', 'interrupted'] loop
      v_request := gen_random_uuid();
      v_before := clock_timestamp();
      select * into v_claim
      from public.acquire_refresh_lock(
        p_function_name => v_name, p_request_id => v_request, p_lease => '7 minutes', p_force => true
      );
      if v_claim.acquired is not true then
        raise exception 'a lease was refused as %', v_claim.reason;
      end if;
      select * into v_row from public.refresh_schedule s where s.function_name = v_name;
      if v_row.locked_by is distinct from v_request::text or v_row.fence is distinct from v_claim.fence
        or (v_row.locked_until between v_before + interval '7 minutes' and clock_timestamp() + interval '7 minutes')
          is not true
      then
        raise exception 'the lease of a run is not kept as it was written';
      end if;
      v_before := clock_timestamp();
      perform public.finish_refresh_run(
        p_function_name => v_name, p_request_id => v_request, p_fence => v_claim.fence, p_status => v_status,
        p_delay => '11 minutes'
      );
      select * into v_row from public.refresh_schedule s where s.function_name = v_name;
      if v_row.last_status is distinct from v_status or v_row.locked_by is not null then
        raise exception 'the end of a run is not kept as it was written: % became %', v_status, v_row.last_status;
      end if;
      if (v_row.next_run_at between v_before + interval '11 minutes' and clock_timestamp() + interval '11 minutes')
        is not true
      then
        raise exception 'the time of the next run is not kept as it was written';
      end if;
    end loop;
  end loop;
end
$$;

-- name: reactions
-- Triggers and rules on these tables that are in force, except those of our names.
select coalesce(jsonb_agg(to_jsonb(found) order by found.of_table, found.name), '[]')
from (
  select
    c.relname as of_table,
    'trigger' as kind,
    quote_ident(g.tgname) as name,
    case g.tgenabled when 'R' then 'replica ' when 'A' then 'always ' else '' end as how,
    g.tgfoid::regprocedure::text as function
  from pg_catalog.pg_trigger g
  join pg_catalog.pg_class c on c.oid = g.tgrelid
  where not g.tgisinternal
    and g.tgenabled <> 'D'
    and g.tgname <> all (%(ours)s::text[])
    and c.relnamespace = to_regnamespace('public')
    and c.relname = any (%(tables)s::text[])
    and c.relkind = 'r'
  union all
  select
    c.relname,
    'rule',
    quote_ident(w.rulename),
    case w.ev_enabled when 'R' then 'replica ' when 'A' then 'always ' else '' end,
    null
  from pg_catalog.pg_rewrite w
  join pg_catalog.pg_class c on c.oid = w.ev_class
  where w.ev_enabled <> 'D'
    and c.relnamespace = to_regnamespace('public')
    and c.relname = any (%(tables)s::text[])
    and c.relkind = 'r'
) found

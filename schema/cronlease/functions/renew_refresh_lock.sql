-- Extends a lease that is still ours: renewed. Busy: the row is locked, by our own data transaction for
-- instance, and nobody else can take it meanwhile. Lost: somebody else has it, or nobody. What a run saves is kept
-- with it, for the next one should this one not finish.
create or replace function public.renew_refresh_lock(
  p_function_name text,
  p_request_id uuid,
  p_fence bigint,
  p_lease interval,
  p_saved jsonb default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
begin
  if p_lease is null or p_lease <= interval '0' then
    raise exception 'a lease must be longer than zero, not %', coalesce(p_lease::text, 'null') using errcode = '22023';
  end if;
  if p_lease > interval '1 day' then
    raise exception 'a lease is at most a day, not %', p_lease using errcode = '22023';
  end if;
  perform
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence
  for no key update skip locked;
  if found then
    update public.refresh_schedule s
    set locked_until = clock_timestamp() + p_lease,
        saved = coalesce(p_saved, s.saved)
    where s.function_name = p_function_name;
    return 'renewed';
  end if;
  perform
  from public.refresh_schedule s
  where s.function_name = p_function_name
    and s.locked_by = p_request_id::text
    and s.fence = p_fence;
  return case when found then 'busy' else 'lost' end;
end
$$;

-- Records what became of claimed alerts: those that were delivered are done, the one that failed is tried again
-- later, each time after a longer pause, and those that were not sent wait for it. A caller that was held up for so
-- long that somebody else has claimed them changes nothing.
create or replace function public.settle_refresh_alerts(
  p_holder uuid,
  p_delivered bigint[],
  p_failed bigint[],
  p_unsent bigint[]
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
begin
  delete from public.refresh_alerts a
  where a.id = any (p_delivered);
  update public.refresh_alerts a
  set held_by = null,
      held_until = clock_timestamp() + least(5 * power(2, least(a.tries, 20)), 600) * interval '1 second'
  where a.id = any (p_failed)
    and a.held_by = p_holder;
  update public.refresh_alerts a
  set held_by = null,
      held_until = null,
      tries = a.tries - 1
  where a.id = any (p_unsent)
    and a.held_by = p_holder;
end
$$;

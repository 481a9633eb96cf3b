-- Writes openings as a merge does, to an adopted table. Migrate tries this after adopting one, and rolls it back.
do $$
begin
  set constraints all immediate;
  insert into public.opening_signals (source, external_id)
  values ('cronlease trial', '1'), ('cronlease trial', '2');
  update public.opening_signals o
  set title = 'Engineer',
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

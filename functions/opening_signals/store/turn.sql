-- After what differed is written: closes the openings that their source no longer has, opens those again that
-- returned, and says how many were seen, opened and closed. The others are not touched. A source that is not among
-- `closing` gave items that could not be read: any opening may be one of them, so nothing of it is closed.
with seen as not materialized (
  select source, unnest(external_ids) as external_id
  from public.opening_staging_pages
  where request_id = %(request_id)s
    and source = any (%(sources)s)
),
differing as (
  select o.source, o.external_id, true as gone
  from public.opening_signals o
  where o.source = any (%(sources)s)
    and o.closed_at is null
    and not exists (select from seen n where n.source = o.source and n.external_id = o.external_id)
  union all
  select o.source, o.external_id, false
  from public.opening_signals o
  where o.source = any (%(sources)s)
    and o.closed_at is not null
    and exists (select from seen n where n.source = o.source and n.external_id = o.external_id)
),
turned as (
  update public.opening_signals o
  set closed_at = case when d.gone then transaction_timestamp() end,
      -- Whoever was told that it closed must be told that it is back.
      changed_at = case when d.gone then o.changed_at else transaction_timestamp() end,
      last_seen_at = case when d.gone then coalesce(s.last_seen_at, o.changed_at, o.first_seen_at) end
  from differing d
  left join public.opening_sources s
    on s.name = d.source
  where o.source = d.source
    and o.external_id = d.external_id
    and (not d.gone or d.source = any (%(closing)s))
  returning d.gone
)
select
  -- Those that were open before this statement and are not gone, and those that returned.
  (select count(*) from public.opening_signals where source = any (%(sources)s) and closed_at is null)
    - (select count(*) from differing where gone)
    + count(*) filter (where not gone),
  count(*) filter (where not gone),
  count(*) filter (where gone)
from turned

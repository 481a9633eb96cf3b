-- Staging fills two unlogged tables page by page: opening_staging_pages has the keys of every page, opening_staging
-- only the openings that differ from what is stored. The merge reads both in one fenced transaction.

-- name: delete_stale_staging
-- Rows of finished runs, which died or lost their lease between staging and merge.
with live as (
  select request_id
  from public.live_runs
  union all
  select %(request_id)s
),
openings as (
  delete from public.opening_staging s
  where not exists (select from live l where l.request_id = s.request_id)
  returning 1
),
pages as (
  delete from public.opening_staging_pages s
  where not exists (select from live l where l.request_id = s.request_id)
  returning 1
)
select (select count(*) from openings) + (select count(*) from pages)

-- name: current_pages
-- The remembered pages of a source if together they are exactly its open openings as stored now; otherwise none. Each
-- opening is then stored as its page had it, whoever else wrote since.
with pages as materialized (
  select digest, openings, fingerprint
  from public.opening_pages
  where source = %(source)s
)
select digest, fingerprint
from pages
where exists (select from pages)
  and (
    select (count(*), sum(public.opening_fingerprint(external_id, content_hash || payload_hash)))
    from public.opening_signals
    where source = %(source)s
      and closed_at is null
  ) = (select (sum(openings), sum(fingerprint)) from pages)

-- name: compare_page
-- The places (from 1) of the openings of a page that differ from what is stored, and the fingerprint of the page. The
-- hashes of each opening are 48 bytes: 32 of the shown fields, 16 of the payload.
select
  coalesce(array_agg(p.place) filter (where p.hashes is distinct from stored.hashes), '{}'),
  sum(public.opening_fingerprint(p.external_id, p.hashes))
from (
  select external_id, place, substring(%(hashes)b from place::integer * 48 - 47 for 48) as hashes
  from unnest(%(external_ids)s::text[]) with ordinality as u (external_id, place)
) p
left join (
  select external_id, content_hash || payload_hash as hashes
  from public.opening_signals
  where source = %(source)s
    and external_id = any (%(external_ids)s::text[])
) stored
  on stored.external_id = p.external_id

-- name: stage_openings
copy public.opening_staging (
  request_id, source, position,
  external_id, title, organization, location, url, posted_at, department, remote, payload, content_hash, payload_hash
)
from stdin

-- name: stage_page
insert into public.opening_staging_pages (
  request_id, source, position, external_ids, differing, digest, openings, fingerprint
)
values (
  %(request_id)s, %(source)s, %(position)s, %(external_ids)s,
  %(differing)s, %(digest)s, %(openings)s, %(fingerprint)s
)

-- name: staged_pages
-- By source: how many pages this run staged, and whether any of their openings differs.
select source, count(*) as pages, bool_or(differing > 0) as differs
from public.opening_staging_pages
where request_id = %(request_id)s
  and source = any (%(sources)s)
group by source

-- name: set_planner
-- For the merge, until its transaction ends. The statistics of the staging table are always out of date. The planner
-- would believe it empty and loop over all openings once per staged row: hours, not seconds. Hash joins are right for
-- ten rows and for a million. JIT costs more than it saves here, and one merge at a time may use the memory to sort
-- without going to disk.
select
  set_config('enable_nestloop', 'off', true),
  set_config('jit', 'off', true),
  set_config(
    'work_mem',
    greatest(pg_size_bytes(current_setting('work_mem')), pg_size_bytes('32MB')) / 1024 || 'kB',
    true
  )

-- name: write_openings
-- Writes the staged openings of the complete sources and notes which of their fields changed; counts how many are new,
-- and how many changed or are open again. Pages were compared one by one: the last page that has an opening counts. A
-- row without a payload hash was written by version 0.1: filling in its missing fields is not a change.
with latest as materialized (
  select source, external_id, max(position) as position
  from (
    select source, position, unnest(external_ids) as external_id
    from public.opening_staging_pages
    where request_id = %(request_id)s
      and source = any (%(sources)s)
  ) seen
  group by source, external_id
),
changes as (
  insert into public.opening_changes (source, external_id, field, old_value, new_value)
  select source, external_id, field, old_value, new_value
  from (
    select
      o.source,
      o.external_id,
      o.payload_hash is not null as is_known,
      unnest(array['title', 'organization', 'location', 'url', 'posted_at', 'department', 'remote']) as field,
      unnest(
        array[
          o.title, o.organization, o.location, o.url, to_json(o.posted_at at time zone 'UTC') #>> '{}' || 'Z',
          o.department, o.remote::text
        ]
      ) as old_value,
      unnest(
        array[
          s.title, s.organization, s.location, s.url, to_json(s.posted_at at time zone 'UTC') #>> '{}' || 'Z',
          s.department, s.remote::text
        ]
      ) as new_value
    from public.opening_staging s
    join latest l
      on l.source = s.source
      and l.external_id = s.external_id
      and l.position = s.position
    -- The opening as it was before this statement.
    join public.opening_signals o
      on o.source = s.source
      and o.external_id = s.external_id
    where s.request_id = %(request_id)s
      and o.source = any (%(sources)s)
      and o.content_hash is distinct from s.content_hash
  ) f
  where old_value is distinct from new_value
    and (is_known or old_value <> new_value)
),
written as (
  insert into public.opening_signals as o (
    source, external_id, title, organization, location, url, posted_at, department, remote,
    payload, content_hash, payload_hash
  )
  select
    s.source, s.external_id, s.title, s.organization, s.location, s.url, s.posted_at, s.department, s.remote,
    s.payload, s.content_hash, s.payload_hash
  from public.opening_staging s
  join latest l
    on l.source = s.source
    and l.external_id = s.external_id
    and l.position = s.position
  where s.request_id = %(request_id)s
  -- The same order for every writer.
  order by s.source collate "C", s.external_id collate "C"
  -- The opening was known and differs, or another writer got there first.
  on conflict (source, external_id) do update
  set title = excluded.title,
      organization = excluded.organization,
      location = excluded.location,
      url = excluded.url,
      posted_at = excluded.posted_at,
      department = excluded.department,
      remote = excluded.remote,
      payload = excluded.payload,
      content_hash = excluded.content_hash,
      payload_hash = excluded.payload_hash,
      changed_at = case
        when o.closed_at is not null
          or (
            o.payload_hash is not null
            and (o.title, o.organization, o.location, o.url, o.posted_at, o.department, o.remote)
              is distinct from (
                excluded.title, excluded.organization, excluded.location, excluded.url, excluded.posted_at,
                excluded.department, excluded.remote
              )
          )
          or o.title <> excluded.title
          or o.organization <> excluded.organization
          or o.location <> excluded.location
          or o.url <> excluded.url
          or o.posted_at <> excluded.posted_at
          then transaction_timestamp()
        else o.changed_at
      end,
      closed_at = null,
      last_seen_at = null
  where o.content_hash is distinct from excluded.content_hash
    or o.payload_hash is distinct from excluded.payload_hash
    or o.closed_at is not null
  -- xmax is the mark of the lock that an update took; a new row has none.
  returning (xmax = 0) as is_new, o.changed_at = transaction_timestamp() as is_changed
),
emptied as (
  delete from public.opening_staging
  where request_id = %(request_id)s
    and source = any (%(sources)s)
)
select count(*) filter (where is_new), count(*) filter (where is_changed and not is_new)
from written

-- name: sources_in_sync
-- The sources whose staged pages together are exactly their open openings as stored now, and how many openings that is:
-- nothing is left to close or to reopen. The sums of a source with a key on two pages never match.
select s.source, coalesce(stored.openings, 0)
from unnest(%(sources)s::text[]) as s (source)
left join (
  select source, sum(openings) as openings, sum(fingerprint) as fingerprint
  from public.opening_staging_pages
  where request_id = %(request_id)s
    and source = any (%(sources)s)
  group by source
) staged
  on staged.source = s.source
left join (
  select
    source,
    count(*) as openings,
    sum(public.opening_fingerprint(external_id, content_hash || payload_hash)) as fingerprint
  from public.opening_signals
  where source = any (%(sources)s)
    and closed_at is null
  group by source
) stored
  on stored.source = s.source
where staged.openings is not distinct from stored.openings
  and staged.fingerprint is not distinct from stored.fingerprint

-- name: missing_openings
-- By source with open openings: how many were open before this transaction, and how many of the open ones the staged
-- pages lack.
select
  o.source,
  count(*) filter (where o.first_seen_at < transaction_timestamp()) as open_before,
  count(*) filter (where n.external_id is null) as gone
from public.opening_signals o
left join (
  select distinct source, unnest(external_ids) as external_id
  from public.opening_staging_pages
  where request_id = %(request_id)s
    and source = any (%(sources)s)
) n
  on n.source = o.source
  and n.external_id = o.external_id
where o.source = any (%(sources)s)
  and o.closed_at is null
group by o.source

-- name: close_and_reopen
-- After write_openings: closes the openings that their source no longer has, reopens those that returned, and counts
-- the seen, the reopened and the closed. Touches no other row. The openings of a source that is not in `closing` stay
-- open: any of them may be an item that could not be read.
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
      -- A reader who saw it close must see that it is back.
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
  -- The openings that were open before this statement and are not gone, and those that returned.
  (select count(*) from public.opening_signals where source = any (%(sources)s) and closed_at is null)
    - (select count(*) from differing where gone)
    + count(*) filter (where not gone),
  count(*) filter (where not gone),
  count(*) filter (where gone)
from turned

-- name: remember_pages
-- Replaces the remembered pages of these sources by the staged ones. A page that is remembered already is not written
-- again. current_pages decides later whether they still match what is stored.
with staged as materialized (
  select source, digest, openings, fingerprint
  from public.opening_staging_pages
  where request_id = %(request_id)s
    and source = any (%(sources)s)
),
forgotten as (
  delete from public.opening_pages p
  where p.source = any (%(sources)s)
    and not exists (select from staged s where s.source = p.source and s.digest = p.digest)
)
insert into public.opening_pages (source, digest, openings, fingerprint)
select source, digest, openings, fingerprint
from staged
on conflict (source, digest) do nothing

-- name: delete_staged_pages
delete from public.opening_staging_pages
where request_id = %(request_id)s
  and source = any (%(sources)s)

-- name: discard_reading
-- One reading of a source, identified by its range of positions.
with openings as (
  delete from public.opening_staging
  where request_id = %(request_id)s
    and source = %(source)s
    and position >= %(start)s
    and position < %(stop)s
)
delete from public.opening_staging_pages
where request_id = %(request_id)s
  and source = %(source)s
  and position >= %(start)s
  and position < %(stop)s

-- name: delete_staged
-- Rows of sources that failed in this run.
with openings as (
  delete from public.opening_staging
  where request_id = %(request_id)s
)
delete from public.opening_staging_pages
where request_id = %(request_id)s

-- name: prune_changes
delete from public.opening_changes
where ctid = any (
  array(
    select ctid
    from public.opening_changes
    where changed_at < now() - %(retention)s::interval
    order by changed_at
    limit 10000
  )
)

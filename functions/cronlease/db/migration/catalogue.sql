-- name: parts
-- What the tables of these names consist of, in the schema public or, with `scratch`, among the temporary things of this
-- session. The texts are the server's own, without the schema, so that the two can be compared.
-- A column also has the zone in which a session of this role writes a time without one, whatever zone our own client has
-- asked for; and the views and indexes that use it.
with zone as (
  select coalesce(
    (
      select split_part(setting, '=', 2)
      from pg_catalog.pg_db_role_setting s
      cross join lateral unnest(s.setconfig) as setting
      where s.setdatabase in (0, (select d.oid from pg_catalog.pg_database d where d.datname = current_database()))
        and s.setrole in (0, current_user::regrole)
        and lower(split_part(setting, '=', 1)) = 'timezone'
      order by s.setrole = 0, s.setdatabase = 0
      limit 1
    ),
    (select p.reset_val from pg_catalog.pg_settings p where p.name = 'TimeZone')
  ) as name
),
tables as (
  select c.oid, c.relname::text as name, c.relkind, c.relpersistence, c.relforcerowsecurity
  from pg_catalog.pg_class c
  where c.relname = any (%(names)s::text[])
    and c.relnamespace = case when %(scratch)s::boolean then pg_my_temp_schema() else to_regnamespace('public') end
),
parts as (
  select
    t.name as of_table,
    'table' as kind,
    t.name,
    jsonb_build_object(
      'relkind', t.relkind,
      'unlogged', t.relpersistence = 'u',
      'forced', t.relforcerowsecurity,
      'inherits', exists (
        select from pg_catalog.pg_inherits i where i.inhrelid = t.oid or i.inhparent = t.oid
      )
    ) as detail
  from tables t
  union all
  select
    t.name,
    'column',
    a.attname,
    jsonb_build_object(
      'type', format_type(a.atttypid, a.atttypmod) || coalesce(' collate ' || quote_ident(l.collname), ''),
      'base', y.typname,
      'category', y.typcategory,
      'not_null', a.attnotnull,
      'default', case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end,
      'identity', a.attidentity,
      'generated', a.attgenerated,
      'zone', case when y.typname in ('timestamp', 'date') then (select z.name from zone z) end,
      'used_by', array(
        select distinct format(
          'drop %%s %%s',
          case when u.relkind = 'i' then 'index' when u.relkind = 'm' then 'materialized view' else 'view' end,
          format('%%I.%%I', u.relnamespace::regnamespace, u.relname)
        )
        from pg_catalog.pg_depend e
        left join pg_catalog.pg_rewrite w on e.classid = 'pg_rewrite'::regclass and w.oid = e.objid
        join pg_catalog.pg_class u on u.oid = case when e.classid = 'pg_class'::regclass then e.objid else w.ev_class end
        where e.refclassid = 'pg_class'::regclass
          and e.refobjid = t.oid
          and e.refobjsubid = a.attnum
          and (
            u.relkind in ('v', 'm')
            or u.relkind = 'i' and exists (
              select from pg_catalog.pg_index x where x.indexrelid = u.oid and (x.indpred is not null or x.indexprs is not null)
            )
          )
      )
    )
  from tables t
  join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
  join pg_catalog.pg_type y on y.oid = a.atttypid
  left join pg_catalog.pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
  left join pg_catalog.pg_collation l on l.oid = a.attcollation and l.collname <> 'default' and y.typname <> 'name'
  union all
  select
    t.name,
    'constraint',
    n.conname,
    jsonb_build_object(
      'type', n.contype,
      'text', pg_get_constraintdef(n.oid),
      'columns', array(
        select a.attname
        from unnest(n.conkey) with ordinality as k (number, place)
        join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum = k.number
        order by k.place
      ),
      'deferrable', n.condeferrable,
      'valid', n.convalidated
    )
  from tables t
  join pg_catalog.pg_constraint n on n.conrelid = t.oid and n.contype in ('p', 'u', 'c', 'f', 'x')
  union all
  select
    t.name,
    'index',
    c.relname,
    jsonb_build_object(
      'text', pg_get_indexdef(i.indexrelid),
      'unique', i.indisunique,
      'columns', array(
        select coalesce(a.attname, '')
        from unnest(i.indkey::int2[]) with ordinality as k (number, place)
        left join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum = k.number and k.number > 0
        where k.place <= i.indnkeyatts
        order by k.place
      ),
      'valid', i.indisvalid
    )
  from tables t
  join pg_catalog.pg_index i on i.indrelid = t.oid
  join pg_catalog.pg_class c on c.oid = i.indexrelid
  where not exists (
    select from pg_catalog.pg_constraint n where n.conindid = i.indexrelid and n.conrelid = t.oid
  )
  union all
  select
    t.name,
    'trigger',
    g.tgname,
    jsonb_build_object('text', pg_get_triggerdef(g.oid), 'valid', g.tgenabled in ('O', 'A'))
  from tables t
  join pg_catalog.pg_trigger g on g.tgrelid = t.oid and not g.tgisinternal
)
select coalesce(
  jsonb_agg(
    jsonb_build_object(
      'table', p.of_table,
      'kind', p.kind,
      'name', p.name,
      'detail', case
        when p.detail ? 'text' then jsonb_set(
          p.detail,
          '{text}',
          to_jsonb(regexp_replace(p.detail ->> 'text', '\m(pg_temp(_[0-9]+)?|' || 'public' || ')\.', '', 'g'))
        )
        else p.detail
      end
    )
    order by p.of_table, p.kind, p.name
  ),
  '[]'
)
from parts p

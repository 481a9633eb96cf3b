-- name: definitions
-- Functions and views of these names: as they are, and as they should be, which is what pg_temp has. The text is the
-- server's own rendering without the schema; if the shape differs, one cannot be replaced in place.
select coalesce(jsonb_agg(to_jsonb(definition)), '[]')
from (
  select
    p.proname as name,
    n.nspname = 'public' as present,
    regexp_replace(pg_get_functiondef(p.oid), '^[^(]*', '') as text,
    pg_get_function_identity_arguments(p.oid) || ' returns ' || pg_get_function_result(p.oid) as shape,
    format('drop function public.%%I(%%s)', p.proname, pg_get_function_identity_arguments(p.oid)) as removal
  from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  where p.proname = any (%(names)s::text[])
    and p.prokind = 'f'
    and n.oid in (to_regnamespace('public'), pg_my_temp_schema())
  union all
  select
    c.relname,
    n.nspname = 'public',
    pg_get_viewdef(c.oid),
    (
      select string_agg(format('%%I %%s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
      from pg_catalog.pg_attribute a
      where a.attrelid = c.oid
        and a.attnum > 0
    ),
    format('drop view public.%%I', c.relname)
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relname = any (%(names)s::text[])
    and c.relkind = 'v'
    and n.oid in (to_regnamespace('public'), pg_my_temp_schema())
) definition

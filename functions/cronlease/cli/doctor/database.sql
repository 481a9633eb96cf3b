-- name: server
-- Which server this is, which role we are, and the server's time.
select jsonb_build_object(
  'now', extract(epoch from clock_timestamp()),
  'version', current_setting('server_version'),
  'database', current_database(),
  'role', current_user,
  'read_only', current_setting('transaction_read_only')::boolean,
  'pid', pg_backend_pid(),
  -- A missing schema has to be made first.
  'may_create', coalesce(
    has_schema_privilege(to_regnamespace('public')::oid, 'create'),
    has_database_privilege(current_database(), 'create')
  ),
  'encoding', current_setting('server_encoding'),
  'open_schema', exists (
    select
    from pg_catalog.pg_namespace n
    where n.nspname = 'public'
      and has_schema_privilege(lower('PUBLIC'), n.oid, 'create')
  ),
  -- Without PUBLIC, the owners of the schema and of our tables, and the role that asks.
  'creators', array(
    select quote_ident(r.rolname)
    from pg_catalog.pg_namespace n
    cross join lateral aclexplode(n.nspacl) a
    join pg_catalog.pg_roles r on r.oid = a.grantee
    where n.nspname = 'public'
      and a.privilege_type = 'CREATE'
      and not r.rolsuper
      and r.rolname <> current_user
      and r.oid not in (
        select n.nspowner
        union
        select c.relowner
        from pg_catalog.pg_class c
        where c.relnamespace = n.oid
          and c.relname in ('refresh_schedule', 'cronlease_migrations')
      )
    order by 1
  )
)

-- name: scheduled
-- Actions of schedules that have not completed; of very many schedules, only some. Any reader may ask this.
select coalesce(jsonb_agg(distinct s.document ->> 'action'), '[]')
from jsonb_array_elements(
  public.read_refresh_status(p_runs => 0, p_schedules => 1000) -> 'schedules'
) as s (document)
where s.document ->> 'completed_at' is null

-- name: strangers
-- Roles that may use our objects, without the owner, our own roles and the role that asks. `by_default` is true of
-- PUBLIC, and of a role that default privileges grant objects of this schema to.
with objects as (
  select 'table' as kind, c.relname::text as name, c.relowner as owner, c.relacl as acl
  from pg_catalog.pg_class c
  where c.relnamespace = to_regnamespace('public')
    and c.relname = any (%(names)s::text[])
    and c.relkind in ('r', 'v')
  union all
  select 'function', p.proname, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
  from pg_catalog.pg_proc p
  where p.pronamespace = to_regnamespace('public')
    and p.proname = any (%(names)s::text[])
),
given as (
  select
    a.grantee,
    coalesce(array_agg(distinct t.name order by t.name) filter (where t.kind = 'table'), '{}') as tables,
    coalesce(array_agg(distinct t.name order by t.name) filter (where t.kind = 'function'), '{}') as functions
  from objects t
  cross join lateral aclexplode(t.acl) a
  where a.grantee not in (t.owner, current_user::regrole)
  group by a.grantee
)
select coalesce(
  jsonb_agg(
    jsonb_build_object(
      'role', case when g.grantee = 0 then lower('PUBLIC') else quote_ident(r.rolname) end,
      'tables', g.tables,
      'functions', g.functions,
      'by_default', g.grantee = 0 or exists (
        select
        from pg_catalog.pg_default_acl d
        cross join lateral aclexplode(d.defaclacl) a
        where a.grantee = g.grantee
          and d.defaclnamespace in (0, to_regnamespace('public'))
      )
    )
    order by r.rolname
  ),
  '[]'
)
from given g
left join pg_catalog.pg_roles r on r.oid = g.grantee
where r.rolname is null
  or r.rolname not in ('cronlease_runner', 'cronlease_reader')

-- name: leases
-- How many leases have run out without being cleared, and the first names; of very many schedules, only some.
select jsonb_build_object(
  'count', count(*),
  'names', coalesce(
    (array_agg(s.document ->> 'function_name' order by s.document ->> 'locked_until'))[:3],
    '{}'
  )
)
from jsonb_array_elements(
  public.read_refresh_status(p_runs => 0, p_schedules => 1000) -> 'schedules'
) as s (document)
where s.document ->> 'state' in ('stale', 'paused')
  and s.document ->> 'locked_until' is not null

-- name: unreadable
-- How many schedules have args or an every that cannot be read, and the first names; counts at most 1000.
select jsonb_build_object(
  'count', count(*),
  'names', coalesce((array_agg(unreadable.function_name order by unreadable.function_name))[:3], '{}')
)
from (
  select s.function_name
  from public.refresh_schedule s
  where s.completed_at is null
    and case %(column)s::text
      when 'every' then not coalesce(public.is_band(s.every), true)
      when 'args' then public.args_mistake(p_args => s.args) is not null
    end
  limit 1000
) unreadable

-- name: crons
-- The different crons of schedules, with how many schedules have each and the first names; at most 10000 crons.
select coalesce(jsonb_agg(to_jsonb(crons)), '[]')
from (
  select
    jsonb_build_object('cron', s.cron, 'time_zone', s.time_zone, 'has_form', public.is_cron(s.cron)) as cadence,
    count(*) as count,
    (array_agg(s.function_name order by s.function_name))[:3] as names
  from public.refresh_schedule s
  where s.completed_at is null
    and s.cron is not null
  group by s.cron, s.time_zone
  order by min(s.function_name)
  limit 10000
) crons

-- name: actions
-- Actions that are not known, with how many schedules wait for each; the ten most wanted. Without leases: a row of
-- exec or of cronlease.lease() has no function as its action.
select coalesce(jsonb_object_agg(wanted.action, wanted.schedules), '{}')
from (
  select s.action, count(*) as schedules
  from public.refresh_schedule s
  where s.completed_at is null
    and s.action <> all (%(known)s::text[])
    and not (
      s.action = s.function_name
      and coalesce(
        (
          select r.trigger in ('exec', 'lease')
          from public.refresh_runs r
          where r.function_name = s.function_name
          order by r.fence desc
          limit 1
        ),
        false
      )
    )
  group by s.action
  order by count(*) desc, s.action
  limit 10
) wanted

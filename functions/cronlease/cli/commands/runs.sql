-- name: list_runs
-- The history, newest first: of one schedule or of all, with one status or any, of all time or since then.
select coalesce(
  jsonb_agg(to_jsonb(run) || jsonb_build_object('args', public.readable_args(p_args => run.args))),
  '[]'
)
from (
  select
    r.*,
    extract(epoch from r.finished_at - r.started_at) as seconds
  from public.refresh_runs r
  where (%(name)s::text is null or r.function_name = %(name)s::text)
    and (%(status)s::text is null or r.status = %(status)s::text)
    and (%(within)s::interval is null or r.started_at >= clock_timestamp() - %(within)s::interval)
  order by r.started_at desc, r.fence desc
  limit %(limit)s::bigint
) run

-- Actions that have a schedule which is not over; of very many only some. As every role may ask it that may look.
select coalesce(jsonb_agg(distinct s.document ->> 'action'), '[]')
from jsonb_array_elements(
  public.read_refresh_status(p_runs => 0, p_schedules => 1000) -> 'schedules'
) as s (document)
where s.document ->> 'completed_at' is null

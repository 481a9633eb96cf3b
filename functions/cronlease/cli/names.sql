-- Names of schedules, to find the one that was meant; of very many only some.
select array(
  select s.function_name
  from public.refresh_schedule s
  limit 5000
)

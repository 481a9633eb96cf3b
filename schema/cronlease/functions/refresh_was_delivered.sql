-- Whether this delivery has had its success.
create or replace function public.refresh_was_delivered(
  p_function_name text,
  p_delivery text
) returns boolean
language sql
stable
as $$
  select exists (
    select
    from public.refresh_runs r
    where r.function_name = p_function_name
      and r.delivery = p_delivery
      and r.status in ('success', 'partial')
  )
$$;

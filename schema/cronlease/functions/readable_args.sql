-- The args, or the reason why no client could read them: one bad row must not keep the others from being shown.
create or replace function public.readable_args(p_args jsonb) returns jsonb
language sql
immutable
as $$
  select case
    when m.mistake is null then p_args
    else jsonb_build_object('unreadable', m.mistake)
  end
  from (select public.args_mistake(p_args => p_args) as mistake) m
$$;

-- Why args cannot be kept, or null. Every client must be able to read what is stored: Python refuses whole numbers of
-- more than 4300 digits, and nests JSON no deeper than its stack.
create or replace function public.args_mistake(p_args jsonb) returns text
language sql
immutable
as $$
  select case
    when jsonb_typeof(p_args) <> 'object' then format('args are an object, not %s', left(p_args::text, 40))
    when octet_length(p_args::text) > 1000000 then 'args have at most 1000000 bytes'
    when jsonb_path_exists(p_args, 'strict $.**{201}') then 'args are nested at most 200 levels deep'
    when jsonb_path_exists(p_args, 'strict $.** ? (@ >= 1e300 || @ <= -1e300)')
      then 'a number in args lies between -1e300 and 1e300'
  end
$$;

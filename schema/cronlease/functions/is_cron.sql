-- Whether a text has the form of a cron expression: five fields of numbers, names and the signs * , - /. Only
-- the code that plans can tell whether its numbers mean a time.
create or replace function public.is_cron(p_text text) returns boolean
language sql
immutable
as $$
  select p_text ~ '^[ \t]*([0-9A-Za-z*,/-]+[ \t]+){4}[0-9A-Za-z*,/-]+[ \t]*$'
$$;

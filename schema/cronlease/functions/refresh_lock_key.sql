-- The first key of an advisory lock; the second is a schedule's id, or the hash of its name while it has none.
-- Every lock but migrate's has its number here and nowhere else.
create or replace function public.refresh_lock_key(p_purpose text) returns integer
language sql
immutable
as $$
  select case p_purpose
    -- Of whoever claims a row, and of a job that calls try_acquire_action_lock.
    when 'claim' then 1
    when 'create' then 2
    -- Of a fenced transaction: it shows whose backend has the row locked.
    when 'write' then 4
    when 'prune' then 5
  end
$$;

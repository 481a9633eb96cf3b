-- The first key of an advisory lock; the second is a schedule's id, the hash of its name while it has none, or the hash
-- of a request's ID. In the schema public each purpose has its number, those of version 0.1 among them. Elsewhere it is
-- the beginning of a hash of schema and purpose, so that two deployments in one database never meet; db/schema.py
-- computes the same.
create or replace function public.refresh_lock_key(p_purpose text) returns integer
language sql
immutable
as $$
  select case
    -- The literal on the left becomes the name of the schema; the one on the right never changes.
    when 'public' <> lower('PUBLIC') then
      ('x' || left(encode(sha256(('public.' || p_purpose)::bytea), 'hex'), 8))::bit(32)::integer
    -- For whoever claims a row, and for a job that calls try_acquire_action_lock.
    when p_purpose = 'claim' then 1
    when p_purpose = 'create' then 2
    when p_purpose = 'migrate' then 3
    -- For a fenced transaction: it shows whose backend has the row locked.
    when p_purpose = 'write' then 4
    when p_purpose = 'prune' then 5
    -- For a request that asks again while its first claim is being committed.
    when p_purpose = 'request' then 6
  end
$$;

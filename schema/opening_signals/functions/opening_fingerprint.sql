-- A number for one opening as it is stored. The sum over many says whether two sets of them are equal, in whatever
-- order they come; it tells accidents, not forgeries.
create or replace function public.opening_fingerprint(p_external_id text, p_content_hash bytea) returns bigint
language sql
immutable
parallel safe
as $$
  select hashtextextended((p_external_id || encode(p_content_hash, 'hex')) collate "C", 0)
$$;

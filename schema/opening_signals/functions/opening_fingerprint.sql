-- A number for one opening as stored. Equal sums mean that two sets of openings are equal, in whatever order; this
-- detects accidents, not forgeries.
create or replace function public.opening_fingerprint(p_external_id text, p_content_hash bytea) returns bigint
language sql
immutable
parallel safe
as $$
  select hashtextextended((p_external_id || encode(p_content_hash, 'hex')) collate "C", 0)
$$;

-- Name -> hash of what was applied.
select coalesce(jsonb_object_agg(name, hash), '{}')
from public.cronlease_migrations

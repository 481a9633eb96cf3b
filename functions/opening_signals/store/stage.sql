copy public.opening_staging (
  request_id,
  source,
  position,
  external_id,
  title,
  organization,
  location,
  url,
  posted_at,
  payload,
  content_hash
)
from stdin

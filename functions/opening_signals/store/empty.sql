-- What this run staged is merged: only a sweep would look at it again.
delete from public.opening_staging_pages
where request_id = %(request_id)s

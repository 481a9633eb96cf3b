insert into public.cronlease_migrations (name, hash)
values (%(name)s, %(hash)s)
returning name

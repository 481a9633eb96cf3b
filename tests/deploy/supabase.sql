-- What a Supabase project has before our file is run, as far as the file can tell: the REST API's roles, and the
-- signatures of pg_cron, pg_net and the vault, which write down what they were asked.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['anon', 'authenticated', 'service_role'] loop
    begin
      execute format('create role %I nologin noinherit', v_role);
    exception
      when duplicate_object or unique_violation then null;  -- another database of this server has made it
    end;
  end loop;
  alter role service_role bypassrls;
end
$$;
grant usage on schema public to anon, authenticated, service_role;

create schema cron;
create table cron.job (
  jobid bigint generated always as identity,
  jobname text primary key,
  schedule text,
  command text
);
create table cron.job_run_details (jobid bigint, end_time timestamptz);
create function cron.schedule(job_name text, schedule text, command text)
returns bigint
language sql
begin atomic
  insert into cron.job as j (jobname, schedule, command)
  values (job_name, schedule, command)
  on conflict (jobname) do update set schedule = excluded.schedule, command = excluded.command
  returning j.jobid;
end;

create schema vault;
create table vault.decrypted_secrets (name text, decrypted_secret text);
insert into vault.decrypted_secrets
values ('cronlease_url', 'https://cronlease.example'), ('cronlease_token', 'the token');

create schema net;
create table net.asked (url text, body jsonb, headers jsonb, timeout_milliseconds integer);
create function net.http_post(
  url text,
  body jsonb default '{}',
  params jsonb default '{}',
  headers jsonb default '{"Content-Type": "application/json"}',
  timeout_milliseconds integer default 5000
)
returns bigint
language sql
begin atomic
  insert into net.asked values (url, body, headers, timeout_milliseconds) returning 1::bigint;
end;

-- Whether a row whose time has come may not run until it is planned again: its slot is out of attempts or too late, or
-- it goes by a cron and nobody has planned it. A one-shot that is out of attempts waits for a person.
create or replace function public.refresh_is_spent(
  p_row public.refresh_schedule,
  p_cadence text,
  p_attempts integer,
  p_late interval,
  p_at timestamptz
) returns boolean
language sql
stable
as $$
  select coalesce(
    case
      when (p_row).once then (p_row).attempt >= coalesce((p_row).attempts, p_attempts)
      when (p_row).next_run_at is null then position(' ' in public.refresh_cadence(p_row, p_cadence)) > 0
      when (p_row).slot_at is not null then
        (p_row).attempt >= coalesce((p_row).attempts, p_attempts, 3)
        or coalesce(
          p_at > (p_row).slot_at + case when (p_row).missed is null then p_late else (p_row).late end,
          false
        )
    end,
    false
  )
$$;

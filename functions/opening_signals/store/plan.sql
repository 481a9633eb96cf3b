-- For the merge, until its transaction ends. The staging table changes too fast for its statistics to be
-- true, and believing it empty the planner would loop over all openings once per staged row: hours, not
-- seconds. Hash joins are right for ten rows and for a million. Compiling costs more than it saves here,
-- and one merge at a time may have the memory to sort without going to disk.
select
  set_config('enable_nestloop', 'off', true),
  set_config('jit', 'off', true),
  set_config(
    'work_mem',
    greatest(pg_size_bytes(current_setting('work_mem')), pg_size_bytes('32MB')) / 1024 || 'kB',
    true
  )

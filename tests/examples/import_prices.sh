#!/bin/sh
# Replaces the prices by those of a CSV file: a shell job for the crontab of any number of machines, of which one runs it.
#   */5 * * * * cronlease exec import-prices --lease 2m -- ./import_prices.sh prices.csv
set -eu
psql "$DATABASE_URL" --quiet --no-psqlrc -v ON_ERROR_STOP=1 \
  -v name="$CRONLEASE_NAME" -v request_id="$CRONLEASE_REQUEST_ID" -v fence="$CRONLEASE_FENCE" <<SQL
begin;
-- Locks the schedule until the commit, or raises: a run that has lost its lease writes nothing.
select assert_lease(:'name', :'request_id', :fence);
delete from prices;
\copy prices from '$1' with (format csv)
commit;
SQL

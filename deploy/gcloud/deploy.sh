#!/usr/bin/env bash
# Deploys to Cloud Run and Cloud Scheduler what deploy/jobs.json defines, as deploy/cloudrun does with Terraform.
# It may be run again at any time: what is there is kept or brought up to date.
#
#   PROJECT=my-project REGION=europe-west1 DATABASE_URL=postgresql://... deploy/gcloud/deploy.sh
#
#   DATABASE_URL   becomes a new version of the secret; left out, the newest one is used
#   SOURCES        the sources file of refresh_opening_signals, seen from where you are; left out, there are none
#   CLOUD_SQL      PROJECT:REGION:INSTANCE, when DATABASE_URL names its socket
#   SETTINGS       further settings by commas, as in CRONLEASE_EVERY=5m..6m,CRONLEASE_RETENTION=7d
#   ALERT_CHANNELS who is told when a schedule cannot be read: names of notification channels by commas
#   MIGRATE        auto (the first hit on an empty database creates the schema) or never
#   DRY_RUN=1      prints the commands, one a line, instead of running them; nothing is staged
set -euo pipefail

# Whatever can be known to be wrong is said before anything is made.
wrong() {
  echo "$1" >&2
  exit 2
}
[ $# -eq 0 ] || wrong "deploy/gcloud/deploy.sh takes no arguments but variables: its first lines list them"
[ -n "${PROJECT:-}" ] || wrong "PROJECT is not set: export the ID of your project, as in: export PROJECT=my-project"
[ -n "${REGION:-}" ] || wrong "REGION is not set: export the region to deploy to, as in: export REGION=europe-west1"
[ -z "${SOURCES:-}" ] || [ -f "$SOURCES" ] || wrong "SOURCES is $SOURCES, and from $PWD there is no such file"
[[ ${MIGRATE:-auto} =~ ^(auto|never)$ ]] || wrong "MIGRATE is $MIGRATE, but it can only be auto or never"
channels='^projects/[^/,]+/notificationChannels/[0-9]+(,projects/[^/,]+/notificationChannels/[0-9]+)*$'
[[ -z ${ALERT_CHANNELS:-} || $ALERT_CHANNELS =~ $channels ]] ||
  wrong "ALERT_CHANNELS is $ALERT_CHANNELS, and not names such as projects/my-project/notificationChannels/123"
[[ ${CLOUD_SQL:-a:b:c} =~ ^[^:]+(:[^:]+){2,3}$ ]] || wrong "CLOUD_SQL is $CLOUD_SQL, and not PROJECT:REGION:INSTANCE"
ours='CRONLEASE_(AUTH|LEASE|MAX_RUN|MIGRATE)|DATABASE_URL|FUNCTION_TARGET|GOOGLE_CLOUD_PROJECT'
if [[ ,${SETTINGS:-} =~ ,($ours)= ]]; then
  wrong "SETTINGS has ${BASH_REMATCH[1]}, which is set elsewhere: see deploy/jobs.json and the other variables"
fi
if [ -z "${DRY_RUN:-}" ] && ! command -v gcloud >/dev/null; then
  wrong "gcloud is not on the path: install the Google Cloud CLI, or see what it would do with DRY_RUN=1"
fi

deploy=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
secret=cronlease-database-url
function_account=cronlease-function@$PROJECT.iam.gserviceaccount.com
scheduler_account=cronlease-scheduler@$PROJECT.iam.gserviceaccount.com

run() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%s' gcloud
    printf ' %q' "$@" --project="$PROJECT" --quiet
    printf '\n'
  else
    gcloud "$@" --project="$PROJECT" --quiet
  fi
}

# Whether a thing is there already. A dry run asks nobody: then nothing is.
there() {
  [ -z "${DRY_RUN:-}" ] && gcloud "$@" --project="$PROJECT" --quiet >/dev/null 2>&1
}

# One line for each entry of a part of jobs.json: its name, then the fields asked for (a.b is b in a), by tabs.
entries() {
  "$python" - "$deploy/jobs.json" "$@" <<'PYTHON'
import functools, json, sys
file, part, *fields = sys.argv[1:]
for name, entry in json.load(open(file))[part].items():
    print(name, *(functools.reduce(dict.get, field.split("."), entry) for field in fields), sep="\t")
PYTHON
}

service_of() {
  printf '%s' "${1//_/-}"
}

url_of() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf 'https://%s.example' "$(service_of "$1")"
  else
    gcloud run services describe "$(service_of "$1")" --region="$REGION" --project="$PROJECT" \
      --format='value(status.url)'
  fi
}

make_accounts() {
  local account
  for account in "$function_account" "$scheduler_account"; do
    there iam service-accounts describe "$account" || run iam service-accounts create "${account%%@*}"
  done
}

keep_dsn() {
  there secrets describe "$secret" || run secrets create "$secret" --replication-policy=automatic
  if [ -n "${DATABASE_URL:-}" ]; then
    # By a pipe: an argument could be read by whoever lists the processes.
    run secrets versions add "$secret" --data-file=- < <(printf '%s' "$DATABASE_URL")
  fi
  run secrets add-iam-policy-binding "$secret" --role=roles/secretmanager.secretAccessor \
    --member="serviceAccount:$function_account"
  if [ -n "${CLOUD_SQL:-}" ]; then
    run projects add-iam-policy-binding "$PROJECT" --role=roles/cloudsql.client \
      --member="serviceAccount:$function_account" --condition=None
  fi
}

deploy_function() {
  local function=$1 lease=$2 max_run=$3 request_timeout=$4 service database=(--clear-cloudsql-instances)
  service=$(service_of "$function")
  if [ -n "${CLOUD_SQL:-}" ]; then database=(--set-cloudsql-instances="$CLOUD_SQL"); fi
  local settings=CRONLEASE_AUTH=iam,CRONLEASE_LEASE=$lease,CRONLEASE_MAX_RUN=$max_run
  # Cloud Run does not say it, and without it no log line finds its trace.
  settings+=,GOOGLE_CLOUD_PROJECT=$PROJECT
  settings+=,CRONLEASE_MIGRATE=${MIGRATE:-auto},FUNCTION_TARGET=$function${SETTINGS:+,$SETTINGS}
  run run deploy "$service" --region="$REGION" --source="$stage" \
    --no-allow-unauthenticated --service-account="$function_account" \
    --timeout="$request_timeout" --max-instances=2 --cpu=1 --memory=512Mi --cpu-throttling --cpu-boost \
    --set-secrets="DATABASE_URL=$secret:latest" "${database[@]}" --set-env-vars="$settings"
  run run services add-iam-policy-binding "$service" --region="$REGION" --role=roles/run.invoker \
    --member="serviceAccount:$scheduler_account"
}

deploy_job() {
  local name=cronlease-$1 function=$2 path=$3 schedule=$4 time_zone=$5 deadline=$6
  local count=$7 duration=$8 min_backoff=$9 max_backoff=${10} doublings=${11} url verb=create
  url=$(url_of "$function")
  if there scheduler jobs describe "$name" --location="$REGION"; then verb=update; fi
  # The audience is the service, not the address with its path, which would be the default.
  run scheduler jobs "$verb" http "$name" --location="$REGION" --http-method=post --uri="$url$path" \
    --oidc-service-account-email="$scheduler_account" --oidc-token-audience="$url" \
    --schedule="$schedule" --time-zone="$time_zone" --attempt-deadline="$deadline" \
    --max-retry-attempts="$count" --max-retry-duration="$duration" \
    --min-backoff="$min_backoff" --max-backoff="$max_backoff" --max-doublings="$doublings"
}

# A database that is gone fails no request: the log alone tells. One that is there is kept, with its channels.
make_alert() {
  local name
  name=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["displayName"])' "$deploy/alert.json")
  if [ -z "${DRY_RUN:-}" ] && [ -n "$(gcloud alpha monitoring policies list --filter="displayName=\"$name\"" \
    --format='value(name)' --project="$PROJECT" --quiet)" ]; then
    return
  fi
  run alpha monitoring policies create --policy-from-file="$deploy/alert.json" \
    ${ALERT_CHANNELS:+--notification-channels="$ALERT_CHANNELS"}
}

if [ -z "${DRY_RUN:-}${DATABASE_URL:-}" ] && ! there secrets describe "$secret"; then
  wrong "DATABASE_URL is not set, and gcloud shows no secret $secret in $PROJECT: export DATABASE_URL=postgresql://..."
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
[ -n "${DRY_RUN:-}" ] || "$deploy/stage.sh" "$stage" ${SOURCES:+"$SOURCES"}

run services enable artifactregistry.googleapis.com cloudbuild.googleapis.com cloudscheduler.googleapis.com \
  iam.googleapis.com logging.googleapis.com monitoring.googleapis.com run.googleapis.com secretmanager.googleapis.com
make_accounts
keep_dsn
while IFS=$'\t' read -ru 3 -a fields; do
  deploy_function "${fields[@]}"
done 3< <(entries functions lease max_run request_timeout)
while IFS=$'\t' read -ru 3 -a fields; do
  deploy_job "${fields[@]}"
done 3< <(entries jobs function path schedule time_zone attempt_deadline \
  retry.count retry.max_duration retry.min_backoff retry.max_backoff retry.max_doublings)
make_alert

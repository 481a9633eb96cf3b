#!/usr/bin/env bash
# Deploys a folder to Cloud Run and Cloud Scheduler, as deploy/cloudrun does with Terraform: builds the image, applies
# the schema, then replaces the functions, then their jobs. Run it again for the next version.
#
#   PROJECT=my-project REGION=europe-west1 DATABASE_URL=postgresql://... FOLDER=my-folder deploy/gcloud/deploy.sh
#
#   FOLDER         what `cronlease init` makes; left out, functions/, the job that cronlease ships with
#   NAME           of this deployment, before the names of what is made for it; left out, cronlease
#   DATABASE_URL   becomes a new version of the secret; left out, the newest one is used
#   CLOUD_SQL      PROJECT:REGION:INSTANCE, taken from DATABASE_URL when that names its socket; left out, what the
#                  functions have stays, and none takes it away
#   NETWORK        and SUBNET: connects to private addresses in there, such as the private IP of a database
#   SOURCES        the sources file of refresh_opening_signals, seen from where you are; left out, there are none
#   SETTINGS       further settings by commas, as in CRONLEASE_EVERY=5m..6m,CRONLEASE_RETENTION=7d; they are those of
#                  this deploy alone: what is to stay belongs into the environment of jobs.json
#   ALERT_CHANNELS who is told when a run fails or cannot start: names of notification channels by commas
#   MIGRATE        auto (the schema, then FOLDER/schema.sql, are applied before the functions are replaced) or never
#   DRY_RUN=1      prints the commands, one a line, instead of running them; nothing is staged
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

[ $# -eq 0 ] || wrong "deploy/gcloud/deploy.sh takes no arguments but variables: its first lines list them"
[[ ${MIGRATE:-auto} =~ ^(auto|never)$ ]] || wrong "MIGRATE is $MIGRATE, but it can only be auto or never"
channels='^projects/[^/,]+/notificationChannels/[0-9]+(,projects/[^/,]+/notificationChannels/[0-9]+)*$'
[[ -z ${ALERT_CHANNELS:-} || $ALERT_CHANNELS =~ $channels ]] ||
  wrong "ALERT_CHANNELS is $ALERT_CHANNELS, and not names such as projects/my-project/notificationChannels/123"

enable_services() {
  local needed=(artifactregistry cloudbuild cloudscheduler iam logging monitoring run secretmanager)
  case ${CLOUD_SQL:-none} in none) ;; *) needed+=(sqladmin) ;; esac
  run services enable "${needed[@]/%/.googleapis.com}"
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
  # Also those of jobs.json, which you have made.
  local pair each
  while read -ru 3 -d, pair; do
    each=${pair#*=}
    again secrets add-iam-policy-binding "${each%:latest}" --role=roles/secretmanager.secretAccessor \
      --member="serviceAccount:$function_account"
  done 3<<<"$secrets,"
  if [[ ${CLOUD_SQL:-none} != none ]]; then
    # In the project of the instance, which may be another one.
    again projects add-iam-policy-binding "${CLOUD_SQL%:*:*}" --role=roles/cloudsql.client \
      --member="serviceAccount:$function_account" --condition=None
  fi
}

build_image() {
  there artifacts repositories describe "$NAME" --location="$REGION" ||
    run artifacts repositories create "$NAME" --location="$REGION" --repository-format=docker
  run builds submit "$stage" --tag="$image"
}

# Ours, then schema.sql of the folder. A deploy whose schema cannot be applied ends here: what runs goes on running.
migrate() {
  again run jobs deploy "$NAME-migrate" --region="$REGION" --image="$image" --service-account="$function_account" \
    --command=cronlease --args=migrate,--setup,schema.sql --task-timeout=600s --max-retries=0 \
    --set-env-vars="$(settings CRONLEASE_AUTH=none "GOOGLE_CLOUD_PROJECT=$PROJECT")" "${database[@]}"
  run run jobs execute "$NAME-migrate" --region="$REGION" --wait
}

deploy_function() {
  local function=$1 lease=$2 max_run=$3 request_timeout=$4 service
  service=$(service_of "$function")
  # Cloud Run does not say the project, and without it no log line finds its trace.
  again run deploy "$service" --region="$REGION" --image="$image" \
    --no-allow-unauthenticated --service-account="$function_account" \
    --timeout="$request_timeout" --max-instances=2 --cpu=1 --memory=512Mi --cpu-throttling --cpu-boost \
    "${database[@]}" --set-env-vars="$(settings CRONLEASE_AUTH=iam "CRONLEASE_LEASE=$lease" \
      "CRONLEASE_MAX_RUN=$max_run" "CRONLEASE_MIGRATE=${MIGRATE:-auto}" "FUNCTION_TARGET=$function" \
      "GOOGLE_CLOUD_PROJECT=$PROJECT")"
  again run services add-iam-policy-binding "$service" --region="$REGION" --role=roles/run.invoker \
    --member="serviceAccount:$scheduler_account"
}

deploy_job() {
  local name=$NAME-$1 function=$2 path=$3 schedule=$4 time_zone=$5 deadline=$6
  local count=$7 duration=$8 min_backoff=$9 max_backoff=${10} doublings=${11} url verb=create
  url=$(url_of "$function")
  if there scheduler jobs describe "$name" --location="$REGION"; then verb=update; fi
  # The audience is the service, not the address with its path, which would be the default.
  again scheduler jobs "$verb" http "$name" --location="$REGION" --http-method=post --uri="$url$path" \
    --oidc-service-account-email="$scheduler_account" --oidc-token-audience="$url" \
    --schedule="$schedule" --time-zone="$time_zone" --attempt-deadline="$deadline" \
    --max-retry-attempts="$count" --max-retry-duration="$duration" \
    --min-backoff="$min_backoff" --max-backoff="$max_backoff" --max-doublings="$doublings"
}

# A database that is gone fails no request, and the retry of a failed run is a skip: the log alone tells. One that is
# there is kept, with its channels.
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

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
image=$REGION-docker.pkg.dev/${PROJECT/://}/$NAME/$NAME:$(date -u +%Y%m%d-%H%M%S)
if [ -z "${DRY_RUN:-}" ]; then
  if [ -z "${DATABASE_URL:-}" ] && ! there secrets describe "$secret"; then
    wrong "DATABASE_URL is not set, and gcloud shows no secret $secret in $PROJECT: export DATABASE_URL=postgresql://..."
  fi
  gcloud auth print-access-token | "$python" "$deploy/gcloud/permissions.py" "$PROJECT" "${CLOUD_SQL:-}" || exit 2
  "$deploy/stage.sh" "$stage" "$folder"
fi

enable_services
make_accounts
keep_dsn
build_image
if [ "${MIGRATE:-auto}" = auto ]; then migrate; fi
while IFS=$'\t' read -ru 3 -a fields; do
  deploy_function "${fields[@]}"
done 3< <(entries functions lease max_run request_timeout)
while IFS=$'\t' read -ru 3 -a fields; do
  deploy_job "${fields[@]}"
done 3< <(entries jobs function path schedule time_zone attempt_deadline \
  retry.count retry.max_duration retry.min_backoff retry.max_backoff retry.max_doublings)
make_alert

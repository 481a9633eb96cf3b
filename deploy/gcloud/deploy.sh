#!/usr/bin/env bash
# Deploys a folder to Cloud Run and Cloud Scheduler, as deploy/cloudrun does with Terraform: builds the image, applies
# the schema, then replaces the functions, then their jobs. Run it again for the next version.
#
#   PROJECT=my-project REGION=europe-west1 DATABASE_URL=postgresql://... FOLDER=my-folder deploy/gcloud/deploy.sh
#
#   FOLDER         a folder as `cronlease init` makes it; default: functions/, the job that cronlease ships with
#   NAME           the prefix of everything that is made for this deployment; default: cronlease
#   DATABASE_URL   becomes a new version of the secret; default: the newest version is used
#   CLOUD_SQL      PROJECT:REGION:INSTANCE; default: the instance whose socket DATABASE_URL names, else the functions
#                  keep theirs; `none` removes it
#   NETWORK        and SUBNET: connect the functions to private addresses there, such as the private IP of a database
#   SOURCES        the sources file of refresh_opening_signals, relative to the current directory; default: no sources
#   SETTINGS       more settings, separated by commas, as in CRONLEASE_EVERY=5m..6m,CRONLEASE_RETENTION=7d, for this
#                  deployment only: lasting settings belong in the environment of jobs.json
#   ALERT_CHANNELS notification channels for runs that fail or cannot start: their names, separated by commas
#   MIGRATE        auto (applies the schema, then FOLDER/schema.sql, before the functions are replaced) or never
#   DRY_RUN=1      prints the commands, one per line, instead of running them; nothing is staged
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

[ $# -eq 0 ] || wrong "deploy/gcloud/deploy.sh takes variables, not arguments: its first lines list them"
[[ ${MIGRATE:-auto} =~ ^(auto|never)$ ]] || wrong "MIGRATE is $MIGRATE, but it can only be auto or never"
channels='^projects/[^/,]+/notificationChannels/[0-9]+(,projects/[^/,]+/notificationChannels/[0-9]+)*$'
[[ -z ${ALERT_CHANNELS:-} || $ALERT_CHANNELS =~ $channels ]] ||
  wrong "ALERT_CHANNELS is $ALERT_CHANNELS, but needs names such as projects/my-project/notificationChannels/123"

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
    # Through a pipe: anyone who lists the processes could read an argument.
    run secrets versions add "$secret" --data-file=- < <(printf '%s' "$DATABASE_URL")
  fi
  # Includes the secrets of jobs.json, which you have made.
  local pair each
  while read -ru 3 -d, pair; do
    each=${pair#*=}
    again secrets add-iam-policy-binding "${each%:latest}" --role=roles/secretmanager.secretAccessor \
      --member="serviceAccount:$function_account"
  done 3<<<"$secrets,"
  if [[ ${CLOUD_SQL:-none} != none ]]; then
    # In the project of the instance, which may be another.
    again projects add-iam-policy-binding "${CLOUD_SQL%:*:*}" --role=roles/cloudsql.client \
      --member="serviceAccount:$function_account" --condition=None
  fi
}

build_image() {
  there artifacts repositories describe "$NAME" --location="$REGION" ||
    run artifacts repositories create "$NAME" --location="$REGION" --repository-format=docker
  run builds submit "$stage" --tag="$image"
}

# Applies our schema, then the folder's schema.sql. If that fails the deployment ends here, and the old version goes on.
migrate() {
  again run jobs deploy "$NAME-migrate" --region="$REGION" --image="$image" --service-account="$function_account" \
    --command=cronlease --args=migrate,--setup,schema.sql --task-timeout=600s --max-retries=0 \
    --set-env-vars="$(settings CRONLEASE_AUTH=none "GOOGLE_CLOUD_PROJECT=$PROJECT")" "${database[@]}"
  run run jobs execute "$NAME-migrate" --region="$REGION" --wait
}

deploy_function() {
  local function=$1 lease=$2 max_run=$3 request_timeout=$4 service
  service=$(service_of "$function")
  # Cloud Run does not set the project, and log lines need it to link to their trace.
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
  # The audience is the service. The default would be the address with its path.
  again scheduler jobs "$verb" http "$name" --location="$REGION" --http-method=post --uri="$url$path" \
    --oidc-service-account-email="$scheduler_account" --oidc-token-audience="$url" \
    --schedule="$schedule" --time-zone="$time_zone" --attempt-deadline="$deadline" \
    --max-retry-attempts="$count" --max-retry-duration="$duration" \
    --min-backoff="$min_backoff" --max-backoff="$max_backoff" --max-doublings="$doublings"
}

# Alerts on the log: without a database requests still succeed, and the retry of a failed run is a skip. Keeps an
# existing policy, with its channels.
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

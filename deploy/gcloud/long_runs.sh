#!/usr/bin/env bash
# For runs that take longer than an hour, the limit of a request: a Cloud Run job, started by Cloud Scheduler, that
# runs what is due. Pauses the jobs that hit the functions over HTTP: they would start a run and cut it off.
# Run it after deploy.sh with the same variables, and again after each later deployment.
#
#   TIMEOUT   for all that is due together, in seconds; default: 7200
#   SCHEDULE  five cron fields in UTC; default: every five minutes. A job that starts while another runs finds nothing due
#   DRY_RUN=1 prints the commands, one per line, instead of running them
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

[ $# -eq 0 ] || wrong "deploy/gcloud/long_runs.sh takes variables, not arguments: its first lines list them"
[[ ${TIMEOUT:=7200} =~ ^[1-9][0-9]{2,5}$ && $TIMEOUT -le 604800 ]] ||
  wrong "TIMEOUT is $TIMEOUT, but it can only be a number of seconds, from 100 to 604800"

job=$NAME-run-due
first=$(entries functions | head -n 1)
image=IMAGE
if [ -z "${DRY_RUN:-}" ]; then
  image=$(gcloud run services describe "$(service_of "$first")" --region="$REGION" --project="$PROJECT" --quiet \
    --format='value(spec.template.spec.containers[0].image)') || wrong "run deploy/gcloud/deploy.sh first"
fi

# A run ends itself shortly before the platform would, in time to record it.
again run jobs deploy "$job" --region="$REGION" --image="$image" --service-account="$function_account" \
  --command=cronlease --args=run-due,--json --task-timeout="${TIMEOUT}s" --max-retries=0 "${database[@]}" \
  --set-env-vars="$(settings CRONLEASE_AUTH=none "CRONLEASE_MAX_RUN=$((TIMEOUT - 30))s" "GOOGLE_CLOUD_PROJECT=$PROJECT")"
again run jobs add-iam-policy-binding "$job" --region="$REGION" --role=roles/run.invoker \
  --member="serviceAccount:$scheduler_account"
while IFS= read -ru 3 name; do
  run scheduler jobs pause "$NAME-$name" --location="$REGION"
done 3< <(entries jobs)
verb=create
if there scheduler jobs describe "$NAME-long-runs" --location="$REGION"; then verb=update; fi
again scheduler jobs "$verb" http "$NAME-long-runs" --location="$REGION" --http-method=post \
  --uri="https://run.googleapis.com/v2/projects/$PROJECT/locations/$REGION/jobs/$job:run" \
  --oauth-service-account-email="$scheduler_account" --schedule="${SCHEDULE:-*/5 * * * *}" --time-zone=Etc/UTC \
  --max-retry-attempts=0

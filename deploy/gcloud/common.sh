# Shared by the scripts here; sourced, never run. The scripts may be run again at any time: they keep or update what
# exists.
# shellcheck shell=bash disable=SC2034
set -euo pipefail

# All checks come before anything is made.
wrong() {
  echo "$1" >&2
  exit 2
}
[ -n "${PROJECT:-}" ] || wrong "PROJECT is not set: export the ID of your project, as in: export PROJECT=my-project"
[ -n "${REGION:-}" ] || wrong "REGION is not set: export the region to deploy to, as in: export REGION=europe-west1"
[[ ${NAME:=cronlease} =~ ^[a-z][a-z0-9-]{0,18}[a-z0-9]$ ]] ||
  wrong "NAME is $NAME, but it can only be 2 to 20 lower-case letters, digits and hyphens"
if [ -z "${DRY_RUN:-}" ] && ! command -v gcloud >/dev/null; then
  wrong "gcloud is not on the path: install the Google Cloud CLI, or set DRY_RUN=1 to see the commands"
fi
if [[ ${DATABASE_URL:-} =~ host=/cloudsql/([^\&]+) ]]; then : "${CLOUD_SQL:=${BASH_REMATCH[1]}}"; fi
[[ ${CLOUD_SQL:-none} =~ ^(none|[^:]+(:[^:]+){2,3})$ ]] ||
  wrong "CLOUD_SQL is $CLOUD_SQL, which is neither PROJECT:REGION:INSTANCE nor none"
if [[ ${CLOUD_SQL:-none} != none && -n ${DATABASE_URL:-} && $DATABASE_URL != *"host=/cloudsql/$CLOUD_SQL"* ]]; then
  wrong "DATABASE_URL does not name the socket: postgresql://USER:PASSWORD@/DATABASE?host=/cloudsql/$CLOUD_SQL"
fi
[[ -z ${NETWORK:-}${SUBNET:-} || ( -n ${NETWORK:-} && -n ${SUBNET:-} ) ]] ||
  wrong "NETWORK and SUBNET go together: the subnet has to be in that network, and in $REGION"
ours='CRONLEASE_(AUTH|LEASE|MAX_RUN|MIGRATE)|DATABASE_URL|FUNCTION_(SOURCE|TARGET)|GOOGLE_CLOUD_PROJECT|PORT'
if [[ ,${SETTINGS:-} =~ ,($ours)= ]]; then
  wrong "SETTINGS has ${BASH_REMATCH[1]}, which is set elsewhere: see jobs.json and the other variables"
fi

deploy=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
folder=${FOLDER:-$deploy/../functions}
jobs=$("$python" "$deploy/folder.py" "$folder") || exit 2
secret=$NAME-database-url
function_account=$NAME-function@$PROJECT.iam.gserviceaccount.com
scheduler_account=$NAME-scheduler@$PROJECT.iam.gserviceaccount.com

# The database options of functions and jobs. Variables that are not set leave the deployed value as it is.
secrets=$("$python" -c '
import json, sys
jobs, first = sys.argv[1:]
print(",".join([first, *(f"{name}={secret}:latest" for name, secret in json.loads(jobs).get("secrets", {}).items())]))
' "$jobs" "DATABASE_URL=$secret:latest")
database=(--set-secrets="$secrets")
case ${CLOUD_SQL:-} in
  '') ;;
  none) database+=(--clear-cloudsql-instances) ;;
  *) database+=(--set-cloudsql-instances="$CLOUD_SQL") ;;
esac
if [ -n "${NETWORK:-}" ]; then
  database+=(--network="$NETWORK" --subnet="$SUBNET" --vpc-egress=private-ranges-only)
fi

run() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%s' gcloud
    printf ' %q' "$@" --project="$PROJECT" --quiet
    printf '\n'
  else
    gcloud "$@" --project="$PROJECT" --quiet
  fi
}

# Retries a command that needs an account or a permission made a moment ago: Google takes up to a minute to make it
# known everywhere, and refuses until then. Any other error is final.
again() {
  local pause errors
  errors=$(mktemp)
  for pause in ${PAUSES:-5 10 20 40}; do
    if { run "$@" 2>&1 >&3 | tee "$errors" >&2; } 3>&1; then
      rm "$errors"
      return
    fi
    grep -Eiq 'permission|denied|service account|does not exist' "$errors" || { rm "$errors"; return 1; }
    echo "Retrying in $pause s: a new account or permission may not be known everywhere yet." >&2
    sleep "$pause"
  done
  rm "$errors"
  run "$@"
}

# Whether a resource exists. In a dry run none does.
there() {
  [ -z "${DRY_RUN:-}" ] && gcloud "$@" --project="$PROJECT" --quiet >/dev/null 2>&1
}

# One line per entry of a part of jobs.json: its name and the given fields (a.b is b in a), separated by tabs.
entries() {
  "$python" -c '
import functools, json, sys
jobs, part, *fields = sys.argv[1:]
for name, entry in json.loads(jobs)[part].items():
    print(name, *(functools.reduce(dict.get, field.split("."), entry) for field in fields), sep="\t")
' "$jobs" "$@"
}

# The value of --set-env-vars: the arguments, the environment of jobs.json, then SETTINGS. Separated by ~~, since a
# value may have a comma.
settings() {
  "$python" -c '
import json, sys
jobs, further, *words = sys.argv[1:]
own = [f"{name}={value}" for name, value in json.loads(jobs).get("environment", {}).items()]
print("^~~^" + "~~".join([*words, *own, *filter(None, further.split(","))]))
' "$jobs" "${SETTINGS:-}" "$@"
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

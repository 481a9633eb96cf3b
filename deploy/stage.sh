#!/usr/bin/env bash
# Makes DIR the directory that is deployed, from FOLDER: deploy/stage.py says how.
set -euo pipefail
python=${PYTHON:-python3}
command -v "$python" > /dev/null ||
  { echo "there is no $python on this machine: PYTHON=/path/to/python3 names another" >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "$python is older than Python 3.11: PYTHON=python3.13 names another" >&2; exit 1; }
exec "$python" "$(dirname "$0")/stage.py" "$@"

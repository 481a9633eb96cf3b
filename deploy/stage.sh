#!/usr/bin/env bash
# Makes DIR the directory that is deployed: main.py, the wheel of this checkout (schema/ is in it), the requirements
# pinned by the lock and by the wheel's own hash, the sources, and the Dockerfile. It is complete: nothing else of the
# checkout is needed to build or to serve it.
set -euo pipefail

usage="usage: deploy/stage.sh DIR [SOURCES.toml]"
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ -z "$1" ] || [ "${1#-}" != "$1" ]; then
  echo "$usage, where DIR is empty or not there yet" >&2
  exit 2
fi
dir=$1
root=$(cd "$(dirname "$0")/.." && pwd)
sources=${2:-$root/functions/opening_signals/sources.toml}
python=${PYTHON:-python3}

if [ ! -f "$sources" ]; then
  echo "there is no sources file $sources: $usage" >&2
  exit 1
fi
if [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ]; then
  echo "$dir is not empty: a file left from another version would be deployed, too; empty it or name another" >&2
  exit 1
fi
mkdir -p "$dir"

"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$dir" "$root"
cp "$root/functions/main.py" "$root/deploy/Dockerfile" "$dir/"
cp "$sources" "$dir/sources.toml"

# pip says the hash as it wants to read it: --hash=sha256:...
wheel=$(cd "$dir" && ls cronlease-*.whl)
hash=$("$python" -m pip hash --algorithm sha256 "$dir/$wheel" | tail -n 1)
{
  cat "$root/requirements.lock"
  printf './%s \\\n    %s\n' "$wheel" "$hash"
} >"$dir/requirements.txt"

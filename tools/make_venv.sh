#!/bin/sh
# Makes .venv from the first Python that is new enough and can make environments.
# usage: make_venv.sh [PYTHON]     an empty argument means: look for one
set -eu

new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
can_make='import ensurepip, venv'
without_venv=''

for python in ${1:-python3 python3.14 python3.13 python3.12 python3.11}; do
    "$python" -c "$new_enough" 2>/dev/null || continue
    if ! "$python" -c "$can_make" 2>/dev/null; then
        without_venv=${without_venv:-$python}
        continue
    fi
    echo "Making .venv with $("$python" --version) ..."
    "$python" -m venv --clear .venv
    touch .venv/.made
    exit 0
done

if [ -n "$without_venv" ]; then
    echo "$without_venv cannot make virtual environments: its venv or ensurepip module is missing." >&2
    echo "On Debian and Ubuntu: apt-get install python3-venv" >&2
elif [ -n "${1:-}" ]; then
    echo "PYTHON=$1 is not a Python 3.11 or newer." >&2
else
    echo "No Python 3.11 or newer found (tried python3, python3.14, python3.13, python3.12, python3.11)." >&2
    echo "Install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2
fi
exit 1

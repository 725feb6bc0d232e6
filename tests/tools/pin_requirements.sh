#!/usr/bin/env bash
# Write requirements/dev.txt: every version that requirements/dev.in resolves to today.
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
/usr/bin/python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --upgrade --requirement requirements/dev.in
{
    echo "# Made by tests/tools/pin_requirements.sh from dev.in. Do not edit."
    "$scratch/venv/bin/pip" freeze --exclude-editable
} > requirements/dev.txt

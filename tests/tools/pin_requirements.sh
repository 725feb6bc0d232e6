#!/usr/bin/env bash
# Write requirements/dev.txt: every version that requirements/dev.in resolves to today; and likewise core-X.Y.txt for each release of
# ansible-core that the tests run beside that of dev.txt.
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# write NAME FROM FREEZE-OPTION…: requirements/NAME.txt.
write() {
    local name=$1 from=$2
    shift 2
    {
        echo "# Made by tests/tools/pin_requirements.sh from $from. Do not edit."
        "$scratch/venv/bin/pip" freeze --exclude-editable "$@"
    } > "requirements/$name.txt"
}

/usr/bin/python3 -m venv "$scratch/venv"
# Release of ansible-core, and the Python that it is to run with.
while read -r release python; do
    "$scratch/venv/bin/pip" install --quiet --ignore-requires-python --only-binary=:all: --python-version "$python" --target "$scratch/$release" "ansible-core==$release.*"
    write "core-$release" "ansible-core $release for Python $python" --path "$scratch/$release"
done <<'EOF'
2.17 3.11
2.18 3.11
2.21 3.13
EOF
"$scratch/venv/bin/pip" install --quiet --upgrade --requirement requirements/dev.in
write dev dev.in

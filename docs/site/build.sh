#!/usr/bin/env bash
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# build.sh DIRECTORY: build the documentation as HTML below DIRECTORY/html. A warning is an error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
rm -rf "$out"/{rst,doctrees,html}
mkdir -p "$out"
mkdir -m 700 "$out/rst"  # antsibull-docs takes a directory that others cannot write to
antsibull-docs --config-file "$here/antsibull-docs.cfg" collection --use-current --squash-hierarchy --fail-on-error --dest-dir "$out/rst" plumbline.ssd
cp "$here/index.rst" "$here/../images/"*.svg "$here/../examples/fleet.png" "$out/rst/"
sphinx-build -q -W --keep-going -j 2 -b html -c "$here" -d "$out/doctrees" "$out/rst" "$out/html"
python "$here/../../tests/bench/report.py" --example "$out/html"

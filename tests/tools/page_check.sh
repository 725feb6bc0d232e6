#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# page_check.sh PAGE DIRECTORY: what a browser and axe-core make of a page of the report.
# Pictures at 400, 1,280 and 2,560 px in light and dark, and the page on paper, are written to DIRECTORY; NAME.png is the top of it. Fails if
# axe-core finds a violation that is serious or critical, if the page asks for anything, or if it is wider than the window. It is not part of the
# suite: it needs Chromium (Debian's package) and npm, which fetches axe-core and puppeteer-core into the cache.
set -euo pipefail
page=$(readlink -f "$1")
mkdir -p "$2"
out=$(readlink -f "$2")
here=$(cd "$(dirname "$0")" && pwd)
kept=${PLUMBLINE_CACHE:-$HOME/.cache/plumbline}/page-check
command -v chromium npm node >/dev/null || { echo "wanted: the packages chromium, nodejs and npm" >&2; exit 2; }
mkdir -p "$kept"
(cd "$kept" && npm install --silent --no-save axe-core@4.14.1 puppeteer-core@24.43.1)
NODE_PATH=$kept/node_modules node "$here/page_check.js" "$page" "$out"

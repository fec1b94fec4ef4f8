#!/usr/bin/env bash
# The measurements of docs/results, one after the other. Arguments go to each (--rounds N, --quick).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
.venv/bin/python bench/measure.py overhead "$@"
.venv/bin/python bench/measure.py training "$@"
"${CHIMERA_BUILD:-build}/plan_speed" "$@"

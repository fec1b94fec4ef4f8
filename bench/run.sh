#!/usr/bin/env bash
# The measurements of docs/results, one after the other. Arguments go to each of the first two
# (--rounds N, --quick), and leave out the others, which take over half an hour and a quiet machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
.venv/bin/python bench/measure.py overhead "$@"
.venv/bin/python bench/measure.py training "$@"
(($# == 0)) || exit 0
# What docs/results/planning.md is written from.
build/emulate_accuracy >build/emulate_accuracy.jsonl
build/plan_choice >build/plan_choice.csv
build/plan_speed
.venv/bin/python bench/plan_accuracy.py --rounds 4 >build/plan_accuracy.md

#!/bin/bash
set -euo pipefail

/usr/bin/python3 - <<'PY'
import collections, csv, json
totals = collections.Counter()
with open("/app/sales.csv") as file:
    for row in csv.DictReader(file):
        totals[row["region"]] += int(row["amount"])
with open("/app/totals.json", "w") as file:
    json.dump(totals, file)
PY

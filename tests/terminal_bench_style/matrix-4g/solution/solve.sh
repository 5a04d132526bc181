#!/bin/bash
set -euo pipefail

/usr/bin/python3 - <<'PY'
# Lists of Python integers on purpose: about 300 MB, far below the task's 4 GB.
column = list(range(4_000_000))
row = [i * i % 97 for i in range(4_000_000)]
squares = [i + 1_000_000 for i in column]
assert len(squares) == len(row)
answer = sum(column) * sum(row) % 1_000_003
with open("/app/answer.txt", "w") as file:
    print(answer, file=file)
PY

#!/bin/bash
set -euo pipefail

sed -i 's/wordtols/wordtool/' /app/wordtool/pyproject.toml
/usr/bin/python3 -m pip install --break-system-packages --no-build-isolation --no-deps /app/wordtool

#!/bin/bash
set -euo pipefail

sort -u -k2,2n -k1,1 -S 512M /app/log.txt >/app/sorted.txt

#!/bin/bash
set -euo pipefail

apt-get update
apt-get install -y --no-install-recommends jq
jq -r .release.name /app/info.json >/app/name.txt

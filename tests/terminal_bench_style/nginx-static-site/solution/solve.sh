#!/bin/bash
set -euo pipefail

cat >/etc/nginx/conf.d/site.conf <<'CONF'
server {
    listen 127.0.0.1:8080;
    root /app/site;
    add_header X-Served-By infranoise always;
}
CONF
nginx
for _ in $(seq 50); do
    curl -fs http://127.0.0.1:8080/ >/dev/null && exit 0
    sleep 0.1
done
exit 1

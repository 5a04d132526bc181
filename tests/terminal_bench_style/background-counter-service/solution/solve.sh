#!/bin/bash
set -euo pipefail

cat >/app/service.py <<'PY'
from http.server import BaseHTTPRequestHandler, HTTPServer

count = 0


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        global count
        count += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(count).encode())


HTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
PY
nohup /usr/bin/python3 /app/service.py >/app/service.log 2>&1 &
for _ in $(seq 50); do
    (echo >/dev/tcp/127.0.0.1/9000) 2>/dev/null && exit 0
    sleep 0.1
done
exit 1

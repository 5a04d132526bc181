"""Serves 15 pages of 100,000 numbers each, which no page holds in order."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = 100_000


class Pages(BaseHTTPRequestHandler):
    """Answers `/numbers/N`."""

    def do_GET(self) -> None:
        """Write one page, a number per line."""
        first = int(self.path.rpartition("/")[2]) * PAGE
        numbers = (n * 7919 % 1_500_007 for n in range(first, first + PAGE))
        body = "".join(f"{number}\n" for number in numbers).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("", 8000), Pages).serve_forever()

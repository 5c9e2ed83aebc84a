"""A small web server that keeps the last bodies it was given. Its port is the first line that it prints."""

import collections
import http.server
import threading

KEPT = 300
kept = collections.OrderedDict()
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with lock:
            kept[self.path] = body
            kept.move_to_end(self.path)
            while len(kept) > KEPT:
                kept.popitem(last=False)
        self.answer(201)

    def do_GET(self):
        with lock:
            body = kept.get(self.path)
        self.answer(404) if body is None else self.answer(200, body)

    def do_DELETE(self):
        with lock:
            kept.clear()
        self.answer(200)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()

"""A small application for gunicorn that keeps the last bodies it was given, and gunicorn's settings for it. The port is the first
line that it prints."""

import collections
import threading

bind = "127.0.0.1:0"
workers = 1
threads = 8
keepalive = 60

KEPT = 300
kept = collections.OrderedDict()
lock = threading.Lock()


def when_ready(server):
    print(server.LISTENERS[0].sock.getsockname()[1], flush=True)


def put(path, body):
    with lock:
        kept[path] = body
        kept.move_to_end(path)
        while len(kept) > KEPT:
            kept.popitem(last=False)


def app(environ, start_response):
    status, body = "200 OK", b""
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    if method == "PUT":
        put(path, environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        status = "201 Created"
    elif method == "DELETE":
        with lock:
            kept.clear()
    else:
        with lock:
            body = kept.get(path)
        if body is None:
            status, body = "404 Not Found", b""
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]

"""A small application that keeps the last bodies it was given, served by uvicorn. Its port is the first line that it prints."""

import collections
import socket

import uvicorn

KEPT = 300
kept = collections.OrderedDict()


async def put(path, receive):
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    kept[path] = b"".join(parts)
    kept.move_to_end(path)
    while len(kept) > KEPT:
        kept.popitem(last=False)


async def app(scope, receive, send):
    status, body = 200, b""
    if scope["method"] == "PUT":
        await put(scope["path"], receive)
        status = 201
    elif scope["method"] == "DELETE":
        kept.clear()
    else:
        body = kept.get(scope["path"])
        if body is None:
            status, body = 404, b""
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[listener])

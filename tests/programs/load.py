"""Asks a web server on loopback for pages, with several connections at once:  load.py PORT CLIENTS ROUNDS PATH...

Each client keeps one connection, asks for every path again and again, and now and then closes it in the middle of an
answer. A server may close a connection between two answers, at a reload for instance, while the next question is on its
way: such a question is asked again, once, on a new connection. Prints what each path gave, once: status, length and sum. Two answers to one path that differ are an error.
"""

import gzip
import hashlib
import http.client
import sys
import threading

port, clients, rounds = (int(word) for word in sys.argv[1:4])
paths = sys.argv[4:]
answers = {}
faults = []


def note(path, response):
    body = response.read()
    if response.getheader("Content-Encoding"):
        body = gzip.decompress(body)  # where the pieces end is a matter of time
    answer = f"{path} {response.status} {len(body)} {hashlib.sha256(body).hexdigest()[:16]}"
    if answers.setdefault(path, answer) != answer:
        faults.append(f"{answer}, and before {answers[path]}")


def answer_to(connection, method, path, body, headers):
    was_open = connection.sock is not None
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse()
    except (ConnectionError, http.client.BadStatusLine):
        if not was_open or method == "POST":
            raise
        connection.close()
        connection.request(method, path, body, headers)
        return connection.getresponse()


def ask(client):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for turn in range(rounds):
        for path in paths:
            method = "POST" if "post" in path else "GET"
            body = bytes(range(256)) * 40 if method == "POST" else None
            headers = {"Accept-Encoding": "gzip"} if turn % 2 else {}
            response = answer_to(connection, method, path, body, headers)
            if (turn + client) % 7 == 6:
                response.read(10)
                connection.close()
                continue
            note(path + (" gzip" if response.getheader("Content-Encoding") else ""), response)
    connection.close()


def run(client):
    try:
        ask(client)
    except Exception as error:
        faults.append(f"client {client}: {error!r}")


threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for fault in faults[:10]:
    print(fault, file=sys.stderr)
print("\n".join(sorted(answers.values())))
sys.exit(1 if faults or not answers else 0)

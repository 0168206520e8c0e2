"""Serves an application to Quorate's nodes: a function that is given an object and says what becomes of it.

    def execute(key, object, words):        # bytes, bytes or None where there is no object, a list of bytes
        ...
        return reply                        # the object stays as it is
        return reply, object                # and this is what it is now, or None: it is gone

    serve(execute, "127.0.0.1:9100")        # or "unix:/run/stock.sock"

A reply is None, bool, int, float, str, bytes, a list or a dict of these; a `Refused` that is raised is an error for the client, and the
object stays. The function is called from a thread for each connection.
"""

import os
import socketserver
import sys
import traceback

VERSION = b"1"


class Refused(Exception):
    """An error line for the client, with its code first, as in `ERR no such thing`."""


def serve(execute, address):
    """Serves until the process ends."""
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if os.path.exists(path):
            os.unlink(path)
        kind, place = socketserver.ThreadingUnixStreamServer, path
    else:
        host, _, port = address.rpartition(":")
        kind, place = socketserver.ThreadingTCPServer, (host, int(port))
    kind.allow_reuse_address = True
    kind.request_queue_size = 512  # All nodes connect at once when the program was started again.
    kind.daemon_threads = True
    with kind(place, connection(execute)) as server:
        server.serve_forever()


def connection(execute):
    class Connection(socketserver.StreamRequestHandler):
        wbufsize = -1  # An answer leaves in one piece.

        def handle(self):
            while (request := read_request(self.rfile)) is not None:
                self.wfile.write(answer(execute, request))
                self.wfile.flush()

    return Connection


def answer(execute, request):
    name, *words = request
    if name == b"QUORATE":
        return b"+OK\r\n" if words == [VERSION] else b"-ERR this application speaks version 1\r\n"
    if name != b"EXECUTE":
        return b"-ERR an application is asked to EXECUTE\r\n"
    key, value, *words = words
    try:
        result = execute(key, value, words)
    except Refused as refused:
        return error(str(refused))
    except Exception as failed:
        traceback.print_exc(file=sys.stderr)
        return error(f"ERR the application failed: {failed}")
    if isinstance(result, tuple):
        reply, after = result
        return b"*2\r\n" + encoded(reply) + encoded(after)
    return b"*1\r\n" + encoded(result)


def error(text):
    return b"-" + text.replace("\r", " ").replace("\n", " ").encode() + b"\r\n"


def encoded(value):
    match value:
        case None:
            return b"$-1\r\n"
        case bool():
            return b":%d\r\n" % value
        case int() if abs(value) < 2**63:
            return b":%d\r\n" % value
        case int():
            return b"(%d\r\n" % value
        case float():
            return encoded(repr(value))
        case str():
            return encoded(value.encode())
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(value), value)
        case dict():
            return encoded([part for pair in value.items() for part in pair])
        case _:
            parts = [encoded(part) for part in value]
            return b"*%d\r\n%s" % (len(parts), b"".join(parts))


def read_request(stream):
    """A list of bytes, with None for what is not there; None once the node has closed the connection."""
    line = stream.readline()
    if not line:
        return None
    return [read_word(stream) for _ in range(int(line[1:]))]


def read_word(stream):
    length = int(stream.readline()[1:])
    if length < 0:
        return None
    return stream.read(length + 2)[:-2]

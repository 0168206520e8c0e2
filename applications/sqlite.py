#!/usr/bin/env python3
"""Each object is a SQLite database of its own. A call is one SQL statement and its parameters, in one transaction.

    FCALL sqlite 1 shop "create table orders (item, count)"
    FCALL sqlite 1 shop "insert into orders values (?, ?)" apples 3
    FCALL_RO sqlite 1 shop "select * from orders"

A statement has half a second, and reaches no other database and no file. SQLite knows nothing of replicas, and its
databases are read from any of them that is known to be consistent. Needs Python 3.11.
"""

import sqlite3
import sys
import time

from quorate_application import Refused, serve


SECONDS = 0.5
STEPS_BETWEEN_LOOKS = 10_000


def execute(_key, database, words):
    statement, *parameters = (word.decode() for word in words)
    connection = sqlite3.connect(":memory:")
    try:
        if database is not None:
            connection.deserialize(database)
        ends_at = time.monotonic() + SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > ends_at, STEPS_BETWEEN_LOOKS)
        connection.set_authorizer(only_itself)
        with connection:
            cursor = connection.execute(statement, parameters)
            rows = [list(row) for row in cursor]
        reply = rows if cursor.description else cursor.rowcount
        after = content(connection)
        return reply if after == database else (reply, after)
    except sqlite3.Error as failed:
        raise Refused(f"SQL {failed}") from failed
    finally:
        connection.close()


def content(connection):
    """None while nothing was ever created."""
    return connection.serialize() if connection.execute("pragma page_count").fetchone() != (0,) else None


def only_itself(action, *_):
    return sqlite3.SQLITE_DENY if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH) else sqlite3.SQLITE_OK


if __name__ == "__main__":
    serve(execute, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9101")

#!/usr/bin/env python3
"""Each object is a SQLite database of its own. A call is one SQL statement and its parameters, in one transaction.

    FCALL sqlite 1 shop "create table orders (item, count)"
    FCALL sqlite 1 shop "insert into orders values (?, ?)" apples 3
    FCALL_RO sqlite 1 shop "select * from orders"

SQLite knows nothing of replicas, and its databases are read from any of them that is known to be consistent. Needs Python 3.11.
"""

import sqlite3
import sys

from quorate_application import Refused, serve


def execute(_key, database, words):
    statement, *parameters = (word.decode() for word in words)
    connection = sqlite3.connect(":memory:")
    try:
        if database is not None:
            connection.deserialize(database)
        before = connection.total_changes, schema(connection)
        with connection:
            cursor = connection.execute(statement, parameters)
            rows = [list(row) for row in cursor]
        reply = rows if cursor.description else cursor.rowcount
        if (connection.total_changes, schema(connection)) == before:
            return reply
        return reply, connection.serialize()
    except sqlite3.Error as failed:
        raise Refused(f"SQL {failed}") from failed
    finally:
        connection.close()


def schema(connection):
    return connection.execute("pragma schema_version").fetchone()


if __name__ == "__main__":
    serve(execute, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9101")

#!/usr/bin/env python3
"""How many there are of something: taken only while there are enough. Each object is a number.

    FCALL stock 1 apples add 10      10
    FCALL stock 1 apples take 3      7
    FCALL stock 1 apples take 8      (error) STOCK there are 7
    FCALL_RO stock 1 apples count    7
"""

import sys

from quorate_application import Refused, serve


def execute(_key, stock, words):
    count = int(stock or 0)
    match words:
        case [b"count"]:
            return count
        case [b"add", number] if number.isdigit():
            count += int(number)
        case [b"take", number] if number.isdigit():
            if int(number) > count:
                raise Refused(f"STOCK there are {count}")
            count -= int(number)
        case _:
            raise Refused("ERR use count, add NUMBER or take NUMBER")
    return count, str(count)


if __name__ == "__main__":
    serve(execute, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9100")

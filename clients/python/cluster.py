"""A cluster of node processes for tests: started with `quorate up`, in a directory and on ports of its own.

Whatever was started ends with the program that started it, also when that one is killed.
"""

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import redis

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
PATIENCE_S = 60
# What `quorate` promises for SIGTERM, and a little more for `up` itself.
STOPPED_WITHIN_S = 12


def program():
    return os.environ.get("QUORATE") or str(REPOSITORY / "target" / "release" / "quorate")


def until(what, happened):
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited for {PATIENCE_S} s until {what}")
        time.sleep(0.01)


class Cluster:
    def __init__(self, node_count=3):
        self.node_count = node_count
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="quorate-python-"))
        self.data = self.scratch / "data"
        self.port, self.admin_port = ports(node_count)
        self.by_hand = {}
        self.up = None

    def __enter__(self):
        words = ["up", "--nodes", self.node_count, "--dir", self.data]
        words += ["--port", self.port, "--admin-port", self.admin_port]
        self.up = self.spawn(words, self.scratch / "up.log")
        try:
            for index in range(self.node_count):
                self.wait_for(index)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # First `up`, which would report the deaths of its nodes.
        for process in [self.up, *self.by_hand.values()]:
            process.terminate()
            try:
                process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.scratch)

    def client(self, index=0, **options):
        return redis.Redis(port=self.port + index, **options)

    def kill(self, index):
        """`kill -9`; returns when the process is gone."""
        pid = int((self.directory(index) / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        if index in self.by_hand:
            self.by_hand.pop(index).wait()
        until("the killed node is gone", lambda: not os.path.exists(f"/proc/{pid}"))

    def start_by_hand(self, index):
        directory = self.directory(index)
        self.by_hand[index] = self.spawn(["node", "--config", directory / "node.toml"], directory / "log")
        self.wait_for(index)

    def directory(self, index):
        return self.data / f"node-{index + 1}"

    def wait_for(self, index):
        process = self.by_hand.get(index, self.up)

        def answers():
            if process.poll() is not None:
                raise AssertionError(f"ended with {process.returncode}: {(self.scratch / 'up.log').read_text()}")
            try:
                return self.client(index).ping()
            except redis.ConnectionError:
                return False

        until(f"node {index + 1} answers", answers)

    def spawn(self, words, log):
        with open(log, "a") as output:
            return subprocess.Popen(
                [program(), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )


def ports(node_count):
    """The first of free ports for clients, and for administration. Peers are 10,000 above clients."""
    for block in range(os.getpid() % 450, os.getpid() % 450 + 450):
        port, admin_port = 11_000 + block % 450 * 8, 29_000 + block % 450 * 8
        starts = [port, port + 10_000, admin_port]
        if all(is_free(start + index) for start in starts for index in range(node_count)):
            return port, admin_port
    raise AssertionError("no free ports")


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

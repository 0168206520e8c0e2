"""Quorate through redis-py: what its users call must do what they expect of Redis.

Run it with clients/python/run, which fetches redis-py.
"""

import random
import threading
import time
import unittest

import redis

from cluster import Cluster, until

cluster = None


def setUpModule():
    global cluster
    cluster = Cluster().__enter__()
    unittest.addModuleCleanup(cluster.__exit__)


class Commands:
    """Every test is run with both versions of the protocol."""

    protocol = None

    def setUp(self):
        self.r = cluster.client(protocol=self.protocol, decode_responses=True)
        self.addCleanup(self.r.close)
        self.r.flushdb()

    def test_the_handshake(self):
        hello = self.r.execute_command("HELLO")
        hello = hello if isinstance(hello, dict) else dict(zip(hello[::2], hello[1::2]))
        self.assertEqual(hello["proto"], self.protocol)
        self.assertEqual((hello["server"], hello["role"]), ("redis", "master"))
        self.assertTrue(self.r.ping())
        self.assertEqual(self.r.echo("hi"), "hi")

    def test_bytes_are_kept_as_they_are(self):
        raw = cluster.client(1, protocol=self.protocol)
        key, value = b"\x00\r\n\xff", bytes(range(256)) * 4096
        self.assertTrue(raw.set(key, value))
        self.assertEqual(raw.get(key), value)
        self.assertTrue(raw.set("", ""))
        self.assertEqual(raw.get(""), b"")
        self.assertIsNone(raw.get("nothing"))

    def test_hashes(self):
        self.assertEqual(self.r.hset("h", mapping={"a": "1", "b": "2"}), 2)
        self.assertEqual(self.r.hgetall("h"), {"a": "1", "b": "2"})
        self.assertEqual(self.r.hmget("h", "a", "none", "b"), ["1", None, "2"])
        self.assertEqual(self.r.hincrby("h", "a", 41), 42)
        self.assertEqual(self.r.hincrbyfloat("h", "f", 0.5), 0.5)
        self.assertEqual(dict(self.r.hscan_iter("h", match="[ab]")), {"a": "42", "b": "2"})
        self.assertIn(self.r.hrandfield("h"), ["a", "b", "f"])
        self.assertEqual((self.r.type("h"), self.r.hlen("h")), ("hash", 3))
        with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE"):
            self.r.get("h")
        self.assertEqual(self.r.hdel("h", "a", "b", "f", "none"), 3)
        self.assertFalse(self.r.exists("h"))
        many = {f"field{n}": str(n) for n in range(2000)}
        self.r.hset("many", mapping=many)
        self.assertEqual(self.r.hgetall("many"), many)
        self.assertEqual(dict(self.r.hscan_iter("many", count=100)), many)

    def test_lists(self):
        self.assertEqual(self.r.rpush("l", "b", "c"), 2)
        self.assertEqual(self.r.lpush("l", "a"), 3)
        self.assertEqual(self.r.lrange("l", 0, -1), ["a", "b", "c"])
        self.assertEqual(self.r.lpop("l"), "a")
        self.assertEqual(self.r.rpop("l", 5), ["c", "b"])
        self.assertIsNone(self.r.lpop("l"))
        self.assertEqual(self.r.llen("l"), 0)
        self.r.rpush("l", *[str(n) for n in range(5000)])
        self.assertEqual(self.r.lindex("l", -1), "4999")
        self.assertTrue(self.r.ltrim("l", 10, 19))
        self.assertEqual(self.r.lrange("l", 0, -1), [str(n) for n in range(10, 20)])
        self.assertEqual(self.r.lpos("l", "12"), 2)

    def test_sets(self):
        self.assertEqual(self.r.sadd("s", "a", "b", "c", "a"), 3)
        self.assertEqual(set(self.r.smembers("s")), {"a", "b", "c"})
        self.assertTrue(self.r.sismember("s", "a"))
        self.assertEqual(self.r.smismember("s", ["a", "x"]), [1, 0])
        self.assertEqual(set(self.r.sscan_iter("s")), {"a", "b", "c"})
        self.assertIn(self.r.srandmember("s"), {"a", "b", "c"})
        taken = self.r.spop("s", 2)
        self.assertEqual((len(taken), self.r.scard("s")), (2, 1))
        self.assertEqual(self.r.srem("s", *taken), 0)

    def test_sorted_sets(self):
        self.assertEqual(self.r.zadd("z", {"a": 1, "b": 2.5, "c": 3}), 3)
        self.assertEqual(self.r.zadd("z", {"a": 0.5, "d": 9}, gt=True), 1)
        self.assertEqual([tuple(pair) for pair in self.r.zrange("z", 0, 1, withscores=True)], [("a", 1.0), ("b", 2.5)])
        self.assertEqual(self.r.zrangebyscore("z", "(1", "+inf"), ["b", "c", "d"])
        self.assertEqual((self.r.zscore("z", "b"), self.r.zrank("z", "c")), (2.5, 2))
        self.assertEqual(self.r.zincrby("z", 10, "a"), 11.0)
        # The client makes a pair of it in version 2 only.
        self.assertIn(self.r.zpopmax("z"), ([("a", 11.0)], ["a", 11.0]))
        self.assertEqual(self.r.zremrangebyrank("z", 0, 0), 1)
        self.assertEqual(dict(self.r.zscan_iter("z")), {"c": 3.0, "d": 9.0})

    def test_transactions(self):
        # The client's pipelines are transactions unless told otherwise.
        pipeline = self.r.pipeline().set("{t}a", 1).incr("{t}a").hset("{t}h", "f", "v").get("{t}h").get("{t}a")
        answers = pipeline.execute(raise_on_error=False)
        self.assertEqual((answers[:3], answers[4]), ([True, 2, 1], "2"))
        self.assertIsInstance(answers[3], redis.ResponseError)
        with self.assertRaisesRegex(redis.ResponseError, "same slot"):
            self.r.pipeline().set("a", 1).set("b", 2).execute()
        self.assertFalse(self.r.exists("a", "b"))

    def test_set_and_its_options(self):
        self.assertTrue(self.r.set("k", "1"))
        self.assertIsNone(self.r.set("k", "2", nx=True))
        self.assertTrue(self.r.set("k", "2", xx=True))
        self.assertIsNone(self.r.set("other", "2", xx=True))
        self.assertEqual(self.r.set("k", "3", get=True), "2")
        self.assertIsNone(self.r.set("new", "1", nx=True, get=True))
        self.assertTrue(self.r.set("k", "4", ex=100))
        self.assertIn(self.r.ttl("k"), (99, 100))
        self.assertTrue(self.r.set("k", "5", keepttl=True))
        self.assertGreater(self.r.ttl("k"), 0)
        self.assertTrue(self.r.set("k", "6"))
        self.assertEqual(self.r.ttl("k"), -1)
        self.assertTrue(self.r.set("k", "7", px=100_000))
        self.assertLessEqual(self.r.pttl("k"), 100_000)
        at = int(time.time()) + 1000
        self.assertTrue(self.r.set("k", "8", exat=at))
        self.assertEqual(self.r.expiretime("k"), at)
        self.assertTrue(self.r.set("k", "9", pxat=at * 1000 + 7))
        self.assertEqual(self.r.execute_command("PEXPIRETIME", "k"), at * 1000 + 7)
        self.assertTrue(self.r.execute_command("SET", "k", "10", "IFEQ", "9"))
        self.assertIsNone(self.r.execute_command("SET", "k", "11", "IFEQ", "9"))
        self.assertTrue(self.r.setnx("fresh", "1"))
        self.assertFalse(self.r.setnx("fresh", "2"))
        self.assertTrue(self.r.setex("s", 50, "v"))
        self.assertTrue(self.r.psetex("p", 50_000, "v"))
        self.assertEqual(self.r.getset("s", "w"), "v")
        self.assertEqual(self.r.getdel("s"), "w")
        self.assertFalse(self.r.exists("s"))

    def test_getex_and_the_options_of_expire(self):
        self.r.set("k", "v")
        self.assertEqual(self.r.getex("k", ex=100), "v")
        self.assertGreater(self.r.ttl("k"), 0)
        self.assertEqual(self.r.getex("k", persist=True), "v")
        self.assertEqual(self.r.ttl("k"), -1)
        self.assertFalse(self.r.expire("k", 100, xx=True))
        self.assertTrue(self.r.expire("k", 100, nx=True))
        self.assertFalse(self.r.expire("k", 50, gt=True))
        self.assertTrue(self.r.expire("k", 200, gt=True))
        self.assertTrue(self.r.expire("k", 50, lt=True))
        self.assertTrue(self.r.pexpire("k", 70_000))
        at = int(time.time()) + 500
        self.assertTrue(self.r.expireat("k", at))
        self.assertEqual(self.r.expiretime("k"), at)
        self.assertTrue(self.r.pexpireat("k", at * 1000 + 3))
        self.assertTrue(self.r.persist("k"))
        self.assertFalse(self.r.persist("k"))
        self.assertEqual((self.r.ttl("nothing"), self.r.pttl("nothing")), (-2, -2))
        self.assertTrue(self.r.expire("k", -1))
        self.assertIsNone(self.r.get("k"))

    def test_what_has_expired_is_never_seen(self):
        readers = [cluster.client(index, protocol=self.protocol) for index in range(3)]
        began = time.monotonic()
        self.r.set("k", "v", px=300)
        while time.monotonic() - began < 0.29:
            seen = [reader.get("k") for reader in readers]
            if time.monotonic() - began < 0.29:
                self.assertEqual(seen, [b"v"] * 3)
        until("it is gone", lambda: self.r.get("k") is None)
        self.assertEqual([reader.exists("k") for reader in readers], [0, 0, 0])
        self.assertEqual(self.r.dbsize(), 0)

    def test_counters(self):
        self.assertEqual([self.r.incr("n"), self.r.incr("n", 5), self.r.decr("n"), self.r.decrby("n", 10)], [1, 6, 5, -5])
        self.assertEqual(self.r.incrby("n", 5), 0)
        self.assertAlmostEqual(self.r.incrbyfloat("f", 10.5), 10.5)
        self.assertAlmostEqual(self.r.incrbyfloat("f", -0.25), 10.25)
        self.r.set("text", "x")
        with self.assertRaisesRegex(redis.ResponseError, "^value is not an integer or out of range$"):
            self.r.incr("text")
        self.r.set("most", 2**63 - 1)
        with self.assertRaisesRegex(redis.ResponseError, "^increment or decrement would overflow$"):
            self.r.incr("most")

    def test_strings(self):
        self.assertEqual(self.r.append("k", "Hello"), 5)
        self.assertEqual(self.r.append("k", " World"), 11)
        self.assertEqual(self.r.strlen("k"), 11)
        self.assertEqual(self.r.getrange("k", -5, -1), "World")
        self.assertEqual(self.r.setrange("k", 6, "Redis"), 11)
        self.assertEqual(self.r.get("k"), "Hello Redis")
        self.assertEqual(self.r.setrange("pad", 3, "x"), 4)
        self.assertEqual(self.r.get("pad"), "\0\0\0x")
        self.assertEqual(self.r.type("k"), "string")
        self.assertEqual(self.r.type("nothing"), "none")

    def test_many_keys(self):
        values = {f"key:{number}": str(number) for number in range(300)}
        self.assertTrue(self.r.mset(values))
        self.assertEqual(self.r.mget(list(values)), list(values.values()))
        self.assertEqual(self.r.mget("key:1", "nothing"), ["1", None])
        self.assertEqual(self.r.dbsize(), 300)
        self.assertEqual(sorted(self.r.keys("key:29*")), sorted(f"key:{n}" for n in [29, *range(290, 300)]))
        self.assertEqual(sorted(self.r.scan_iter()), sorted(values))
        self.assertEqual(sorted(self.r.scan_iter(match="key:1?", count=7)), [f"key:{n}" for n in range(10, 20)])
        self.assertEqual(list(self.r.scan_iter(_type="hash")), [])
        self.assertEqual(self.r.exists("key:1", "key:1", "nothing"), 2)
        self.assertEqual(self.r.delete("key:1", "key:2", "nothing"), 2)
        self.assertEqual(self.r.unlink("key:3"), 1)
        self.assertEqual(self.r.dbsize(), 297)
        self.assertTrue(self.r.flushall())
        self.assertEqual((self.r.dbsize(), self.r.keys()), (0, []))

    def test_pipelines(self):
        pipe = self.r.pipeline(transaction=False)
        for number in range(500):
            pipe.set(f"k{number}", number).incr("n").get(f"k{number}")
        replies = pipe.execute()
        self.assertEqual(replies[0::3], [True] * 500)
        self.assertEqual(replies[1::3], list(range(1, 501)))
        self.assertEqual(replies[2::3], [str(number) for number in range(500)])
        pipe.set("text", "x").incr("text").get("text")
        first, error, last = pipe.execute(raise_on_error=False)
        self.assertEqual((first, type(error), last), (True, redis.ResponseError, "x"))

    def test_what_is_not_there_is_refused_in_the_words_of_redis(self):
        for words, error in [
            (["XADD", "k", "v"], "^unknown command 'XADD', with args beginning with: 'k' 'v' $"),
            (["GET"], "^wrong number of arguments for 'get' command$"),
            (["SET", "k", "v", "EX"], "^syntax error$"),
            (["SET", "k", "v", "EX", "0"], "^invalid expire time in 'set' command$"),
            (["CLIENT", "FROB"], "^unknown subcommand 'FROB'. Try CLIENT HELP.$"),
            (["SELECT", "77"], "^DB index is out of range$"),
            (["GET", "k" * 70_000], "^the key is longer than 64000 bytes$"),
        ]:
            with self.subTest(words[0]), self.assertRaisesRegex(redis.ResponseError, error):
                self.r.execute_command(*words)

    def test_the_connection_and_the_server(self):
        named = cluster.client(1, protocol=self.protocol, client_name="tester", decode_responses=True)
        self.assertEqual(named.client_getname(), "tester")
        self.assertTrue(named.client_setname("other"))
        self.assertEqual(named.client_info()["name"], "other")
        self.assertIn(named.client_id(), [int(client["id"]) for client in named.client_list()])
        info = named.info()
        self.assertEqual((info["redis_version"][:3], info["tcp_port"], info["node_name"]), ("7.0", cluster.port + 1, "n2"))
        self.assertEqual(self.r.info("server")["node_name"], "n1")
        self.assertEqual(self.r.config_get("maxmemory-policy"), {"maxmemory-policy": "noeviction"})
        seconds, microseconds = self.r.time()
        self.assertLess(abs(seconds + microseconds / 1e6 - time.time()), 5)
        self.assertGreater(self.r.command_count(), 40)
        self.assertIn("get", self.r.command())
        self.assertEqual(named.execute_command("RESET"), "RESET")

    def test_a_pool_of_connections_over_all_nodes(self):
        pools = [redis.ConnectionPool(port=cluster.port + index, protocol=self.protocol) for index in range(3)]

        def work(number):
            client = redis.Redis(connection_pool=pools[number % 3])
            for _ in range(50):
                client.incr("n")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.r.get("n"), "1200")
        for pool in pools:
            pool.disconnect()

    def test_namespaces(self):
        words = ["REPLICAS", "3", "VOLUMES", "4", "DURABILITY", "interval", "READS", "quorum"]
        self.assertEqual(self.r.execute_command("QUORATE", "NAMESPACE", "CREATE", "5", *words), "OK")
        listed = self.r.execute_command("QUORATE", "NAMESPACE", "LIST")
        entries = [entry if isinstance(entry, dict) else dict(zip(entry[::2], entry[1::2])) for entry in listed]
        self.assertEqual([entry["namespace"] for entry in entries], [0, 5])
        self.assertEqual((entries[1]["volumes"], entries[1]["reads"]), (4, "quorum"))
        fifth = cluster.client(2, db=5, protocol=self.protocol, decode_responses=True)
        until("the namespace serves", lambda: serves(fifth))
        fifth.set("k", "five")
        self.assertIsNone(self.r.get("k"))
        self.assertTrue(self.r.select(5))
        self.assertEqual(self.r.get("k"), "five")
        self.assertTrue(self.r.select(0))
        self.r.set("k", "zero")
        self.assertTrue(fifth.flushdb())
        self.assertEqual((fifth.dbsize(), self.r.get("k")), (0, "zero"))
        self.assertEqual(self.r.execute_command("QUORATE", "NAMESPACE", "DROP", "5"), "OK")
        with self.assertRaisesRegex(redis.ResponseError, "^no namespace 5"):
            self.r.execute_command("QUORATE", "NAMESPACE", "DROP", "5")


def serves(client):
    try:
        return client.ping()
    except redis.ResponseError:
        return False


class CommandsInVersion2(Commands, unittest.TestCase):
    protocol = 2


class CommandsInVersion3(Commands, unittest.TestCase):
    protocol = 3


class Restart(unittest.TestCase):
    """A client that lives longer than the node that it is on."""

    PIPELINE_LENGTH = 1000

    def test_it_connects_again_by_itself(self):
        for protocol in (2, 3):
            client = cluster.client(0, protocol=protocol)
            self.count_in_pipeline(client)
            cluster.kill(0)
            with self.assertRaises(redis.ConnectionError):
                client.ping()
            cluster.start_by_hand(0)
            self.assertTrue(client.ping())
            self.count_in_pipeline(client)
            client.close()

    def count_in_pipeline(self, client):
        client.delete("pipeline")
        pipeline = client.pipeline(transaction=False)
        for _ in range(self.PIPELINE_LENGTH):
            pipeline.incr("pipeline")
        self.assertEqual(pipeline.execute(), list(range(1, self.PIPELINE_LENGTH + 1)))


class Kills(unittest.TestCase):
    """`kill -9` while many clients count: what was acknowledged is there, and nothing twice."""

    THREADS = 64
    KILLS = 3
    COUNTER = "killed"

    def test_kills(self):
        self.acknowledged, self.unknown, self.numbers, self.wrong = 0, 0, set(), []
        self.lock, self.over = threading.Lock(), threading.Event()
        threads = [threading.Thread(target=self.count) for _ in range(self.THREADS)]
        for thread in threads:
            thread.start()
        try:
            for victim in random.sample(range(3), self.KILLS):
                time.sleep(random.uniform(0.5, 1.5))
                cluster.kill(victim)
                before = self.acknowledged
                until("counting goes on without the node", lambda: self.acknowledged > before + self.THREADS)
                cluster.start_by_hand(victim)
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(self.wrong, [])
        print(f"{self.acknowledged} acknowledged, {self.unknown} unknown", end=" ... ", flush=True)
        for index in range(3):
            value = int(read(cluster.client(index), self.COUNTER))
            self.assertGreaterEqual(value, self.acknowledged)
            self.assertLessEqual(value, self.acknowledged + self.unknown)
            self.assertGreaterEqual(value, max(self.numbers))
        self.assertEqual(len(self.numbers), self.acknowledged)

    def count(self):
        # A write is never sent twice: redis-py would do so by default.
        options = {"retry": redis.retry.Retry(redis.backoff.NoBackoff(), 0), "socket_timeout": 15}
        while not self.over.is_set():
            client = cluster.client(random.randrange(3), **options)
            try:
                # A connection that cannot even be made carries no write.
                client.ping()
            except redis.RedisError:
                time.sleep(0.02)
                continue
            self.count_at(client)
            client.close()

    def count_at(self, client):
        try:
            while not self.over.is_set():
                self.note(client.incr(self.COUNTER))
        except (redis.exceptions.BusyLoadingError, redis.exceptions.TryAgainError):
            pass
        except redis.ResponseError as error:
            code = str(error).split(" ")[0]
            if code == "TIMEOUT":
                self.note(None)
            elif code != "NOQUORUM":
                self.wrong.append(str(error))
        except (redis.ConnectionError, redis.TimeoutError):
            self.note(None)

    def note(self, number):
        """None for a write of unknown outcome."""
        with self.lock:
            if number is None:
                self.unknown += 1
                return
            self.acknowledged += 1
            self.numbers.add(number)


def read(client, key):
    deadline = time.monotonic() + 20
    while True:
        try:
            return client.get(key)
        except redis.RedisError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()

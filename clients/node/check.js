// What both libraries are asked: see clients/README.md. They are given as `call(...words)`, `pipeline(commands)` and
// `scan(pattern)`, each a promise.

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");

const PIPELINE_LENGTH = 1000;
const PATIENCE_MS = 30_000;
const PAUSE_MS = 5;

async function check(name, version, protocol, client) {
  const prefix = `${name}:${protocol}:`;
  await commands(client, prefix);
  await pipeline(client, prefix);
  await restart(client, prefix);
  console.log(`ok ${name} ${version} RESP${protocol}`);
}

async function commands({ call, scan }, prefix) {
  const key = prefix + "key";
  assert.equal(await call("PING"), "PONG");
  assert.equal(await call("SET", key, "text \r\n", "EX", "3600"), "OK");
  assert.equal(await call("GET", key), "text \r\n");
  const left = await call("TTL", key);
  assert.ok(left > 3590 && left <= 3600, `TTL is ${left}`);
  assert.equal(await call("GET", prefix + "nothing"), null);
  await assert.rejects(call("INCR", key), /not an integer/);
  assert.equal(await call("MSET", prefix + "a", "1", prefix + "b", "2"), "OK");
  assert.deepEqual(await call("MGET", prefix + "a", prefix + "nothing", prefix + "b"), ["1", null, "2"]);
  assert.equal(await call("INCRBY", prefix + "a", "41"), 42);
  assert.equal(await call("INCRBYFLOAT", prefix + "b", "0.5"), "2.5");
  assert.equal((await scan(prefix + "*")).length, 3);
  assert.equal(await call("DEL", key, prefix + "a", prefix + "b", prefix + "nothing"), 3);
}

async function pipeline({ call, pipeline }, prefix) {
  const key = prefix + "pipeline";
  const replies = await pipeline(Array.from({ length: PIPELINE_LENGTH }, () => ["INCR", key]));
  assert.deepEqual(replies, Array.from({ length: PIPELINE_LENGTH }, (_, index) => index + 1));
  await call("DEL", key);
}

// The node is killed and started again while this counts.
async function restart(client, prefix) {
  const { call } = client;
  const counter = prefix + "counter";
  await call("DEL", counter);
  let restarted = false;
  process.stdin.once("data", () => (restarted = true));
  console.log("ready");
  let counted = 0;
  while (!restarted) {
    // A library may keep what it is asked until it is connected again, so nothing is awaited for long.
    const incremented = call("INCR", counter).then(
      () => (counted += 1),
      () => {},
    );
    await Promise.race([incremented, sleep(100)]);
    await sleep(PAUSE_MS);
  }
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const connected = call("PING").then(
      () => true,
      () => false,
    );
    if (await Promise.race([connected, sleep(PATIENCE_MS, false, { ref: false })])) break;
    assert.ok(Date.now() < deadline, `not connected again after ${PATIENCE_MS} ms`);
    await sleep(PAUSE_MS);
  }
  const acknowledged = counted;
  const value = Number(await call("GET", counter));
  assert.ok(value >= acknowledged, `counted ${acknowledged} times, but the counter is ${value}`);
  await pipeline(client, prefix);
}

module.exports = { check };

const { createClient } = require("redis");
const { version } = require("redis/package.json");
const { check } = require("./check.js");

const [host, port, protocol] = process.argv.slice(2);
const redis = createClient({ socket: { host, port: Number(port) }, RESP: Number(protocol) });
// Without a listener, a lost connection ends the program.
redis.on("error", () => {});

const call = (...words) => redis.sendCommand(words);
// What is asked in one turn of the event loop is sent as one pipeline.
const pipeline = (commands) => Promise.all(commands.map((words) => redis.sendCommand(words)));

async function scan(pattern) {
  const keys = [];
  for await (const found of redis.scanIterator({ MATCH: pattern })) keys.push(...found);
  return keys;
}

redis
  .connect()
  .then(() => check("node-redis", version, protocol, { call, pipeline, scan }))
  .then(() => process.exit(0))
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });

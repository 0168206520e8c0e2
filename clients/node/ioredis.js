const Redis = require("ioredis");
const { version } = require("ioredis/package.json");
const { check } = require("./check.js");

const [host, port, protocol] = process.argv.slice(2);
const redis = new Redis({ host, port: Number(port), protocol: Number(protocol) });
// Without a listener, a lost connection ends the program.
redis.on("error", () => {});

async function pipeline(commands) {
  const replies = await redis.pipeline(commands.map(([name, ...words]) => ["call", name, ...words])).exec();
  return replies.map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}

async function scan(pattern) {
  const keys = [];
  for await (const found of redis.scanStream({ match: pattern })) keys.push(...found);
  return keys;
}

check("ioredis", version, protocol, { call: (...words) => redis.call(...words), pipeline, scan })
  .then(() => process.exit(0))
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });

// The workloads of the Rust harness on ioredis with auto-pipelining: `peer.js WORKLOAD key=value…`.
"use strict";
const Redis = require("ioredis");

const KEYS = 100_000;
const BATCH = 64;
const W1 = { tasks: 256, prefix: "key", valueBytes: 64, setPercent: 0, timedEvery: 4 };
const WORKLOADS = {
  w1: W1,
  w1k: { ...W1, prefix: "kib", valueBytes: 1024 },
  w2: { ...W1, tasks: 16, timedEvery: 1 },
  w3: { ...W1, setPercent: 100 },
  w4: { ...W1, setPercent: 20 },
  w5: { ...W1, tasks: 1, prefix: "{one}", timedEvery: 1 },
};
const WARM_UP = 0;
const MEASURED = 1;
const OVER = 2;

const [name, ...settings] = process.argv.slice(2);
const options = { secs: "1", warm: "1", ...Object.fromEntries(settings.map((setting) => setting.split("="))) };
const workload = WORKLOADS[name];
const keys = Array.from({ length: KEYS }, (_, number) => `${workload.prefix}:${number}`);
const value = "x".repeat(workload.valueBytes);
const nodes = options.ports.split(",").map((port) => ({ host: "127.0.0.1", port: Number(port) }));
const client = new Redis.Cluster(nodes, { enableAutoPipelining: true, enableReadyCheck: true });

let phase = WARM_UP;
let answers = 0;
let errors = 0;
const times = []; // microseconds

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1000));
const microseconds = () => Number(process.hrtime.bigint()) / 1000;
const randomKey = () => keys[Math.floor(Math.random() * KEYS)];
const isWrong = (reply) => reply === null || reply.length !== value.length;

// A command that fails rejects, and that ends the process: what it measured would be worth nothing.
async function single() {
  if (Math.random() * 100 < workload.setPercent) {
    await client.set(randomKey(), value);
    return 0;
  }
  return isWrong(await client.get(randomKey())) ? 1 : 0;
}

async function batch() {
  const replies = await Promise.all(Array.from({ length: BATCH }, () => client.get(randomKey())));
  return replies.filter(isWrong).length;
}

async function user(id) {
  const [step, asked] = name === "w2" ? [batch, BATCH] : [single, 1];
  for (let count = id; ; count++) {
    const phaseOfStep = phase;
    if (phaseOfStep === OVER) return;
    const timed = count % workload.timedEvery === 0;
    const begun = timed ? microseconds() : 0;
    errors += await step();
    if (phaseOfStep !== MEASURED) continue;
    answers += asked;
    if (timed) times.push(microseconds() - begun);
  }
}

function quantile(sorted, part) {
  if (sorted.length === 0) return 0;
  return sorted[Math.min(Math.floor(sorted.length * part), sorted.length - 1)];
}

function contextSwitches(usage) {
  return usage.voluntaryContextSwitches + usage.involuntaryContextSwitches;
}

function print(seconds, before, after) {
  times.sort((a, b) => a - b);
  const each = (total) => total / Math.max(answers, 1);
  const user = after.userCPUTime - before.userCPUTime;
  const system = after.systemCPUTime - before.systemCPUTime;
  const report = {
    workload: name,
    ops: answers,
    errors,
    secs: seconds,
    ops_s: answers / seconds,
    cpu_us: each(user + system),
    user_us: each(user),
    switches: each(contextSwitches(after) - contextSwitches(before)),
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    p999: quantile(times, 0.999),
    rss_mb: after.maxRSS / 1024,
  };
  console.log(`END ${JSON.stringify(report)}`);
}

client.once("ready", async () => {
  const users = Array.from({ length: workload.tasks }, (_, id) => user(id));
  await sleep(options.warm);
  console.log("START");
  const before = process.resourceUsage();
  const begun = microseconds();
  phase = MEASURED;
  await sleep(options.secs);
  phase = OVER;
  const after = process.resourceUsage();
  const seconds = (microseconds() - begun) / 1e6;
  await Promise.all(users);
  print(seconds, before, after);
  process.exit(0);
});

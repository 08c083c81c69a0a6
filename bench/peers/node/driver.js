'use strict';
// A lock library from npm as one contender of the benchmark: it reads one job a line and writes one answer a line, as the
// children in Rust do (src/child/mod.rs), whose jobs and answers these are.
//
//   node driver.js LIBRARY child SETUP
//
// NODE_PATH names the folder of packages.

const fs = require('node:fs');
const readline = require('node:readline');
const libraries = require('./libraries');

const [wanted, , setup] = process.argv.slice(2);
const lock = libraries[wanted](new URL(JSON.parse(setup).urls[0]));

// CLOCK_MONOTONIC, as in the other processes.
const now = () => process.hrtime.bigint();
const until = (ns) => new Promise((done) => setTimeout(done, Math.max(0, Number(ns - now()) / 1e6)));
// A timer of Node counts whole milliseconds.
const pass = (us) => us > 0 && new Promise((done) => setTimeout(done, us / 1000));

function meter() {
  const [wall, processor] = [now(), process.cpuUsage()];
  return () => {
    const { user, system } = process.cpuUsage(processor);
    return { wall_ns: Number(now() - wall), processor_ns: (user + system) * 1000 };
  };
}

const quantile = (sorted, share) => sorted[Math.round((sorted.length - 1) * share)] ?? 0;

async function pairs({ tasks, ms, prefix, one_name, want }) {
  const cost = meter();
  const end = now() + BigInt(ms) * 1000000n;
  const latencies = [];
  const one = async (task) => {
    const turn = lock(one_name ? prefix : `${prefix}${task}`, want);
    for (let before = now(); before < end; ) {
      await turn(() => undefined);
      const after = now();
      latencies.push(Number(after - before));
      before = after;
    }
  };
  await Promise.all(Array.from({ length: tasks }, (_, task) => one(task)));
  latencies.sort((a, b) => a - b);
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return { Pairs: { pairs: latencies.length, cost: cost(), p50_ns: p50, p99_ns: p99 } };
}

async function turns(job) {
  const [begin, end] = [BigInt(job.begin_ns), BigInt(job.end_ns)];
  await until(begin);
  const cost = meter();
  const [records, failures] = [[], []];
  const one = async (waiter) => {
    const turn = lock(job.name, job.want);
    for (let wanted_ns = now(); wanted_ns < end; wanted_ns = now()) {
      let [granted_ns, releasing_ns, mark] = [0n, 0n, 0];
      try {
        mark = await turn(async () => {
          granted_ns = now();
          await pass(job.hold_us);
          releasing_ns = now();
        });
        // Who waits for a permit has it when its body runs.
        if (turn.waits) wanted_ns = granted_ns;
        // A try that got nothing is no turn.
        if (job.want.Rate === undefined || mark === 1) {
          records.push([waiter, wanted_ns, granted_ns, releasing_ns, 0, mark ?? 0]);
        }
      } catch (error) {
        failures.push(`${error.name}: ${error.message}`);
      }
      await pass(job.pause_us);
    }
  };
  await Promise.all(Array.from({ length: job.waiters }, (_, waiter) => one(waiter)));
  fs.writeFileSync(job.file, Buffer.from(BigUint64Array.from(records.flat(), BigInt).buffer));
  const [failed, used] = [failures[0] ?? null, cost()];
  return { Turns: { turns: records.length, failures: failures.length, failed, cost: used } };
}

async function answer(line) {
  try {
    // A time in nanoseconds is more than a number holds.
    const job = JSON.parse(line.replace(/"(\w+_ns)":(\d+)/g, '"$1":"$2"'));
    if (job.Pairs) return await pairs(job.Pairs);
    if (job.Turns) return await turns(job.Turns);
    throw new Error(`a job that nobody knows: ${line}`);
  } catch (error) {
    return { Failed: `${error.name}: ${error.message}` };
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
  }
  // Open connections would keep the process.
  process.exit(0);
})();

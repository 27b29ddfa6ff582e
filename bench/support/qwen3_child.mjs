// One start of the built library in a process of its own: loads a folder, decodes and prefills, and
// prints what memory and time that took as one line of JSON.
//
//   node bench/support/qwen3_child.mjs '{"dist": DIST_FOLDER, "model": FOLDER, "options": ENGINE_OPTIONS,
//     "batch": SEQUENCES, "prompt": TOKENS, "shared": TOKENS, "generated": TOKENS, "rounds": TIMES}'
//
// The first `shared` tokens of all prompts of a round are the same, and computed once.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { pathToFileURL } from "node:url";

/** Of the prompts of the first round together, and of what follows each. */
const WARM_UP_TOKENS = 512;
const WARM_UP_GENERATED = 4;
const asked = JSON.parse(process.argv[2]);
const { dist, model, options, batch = 1, prompt, shared = 0, generated, rounds } = asked;
const library = (name) => import(pathToFileURL(join(dist, name)).href);
const { Engine } = await library("node_index.js");
const { driverThreadsFor, openDevice, openFolder } = await library("node.js");

/** Most bytes that the process has ever had in memory, as the system counts them. */
function peakResident() {
  // What getrusage says counts the process that started this one, too.
  if (process.platform !== "linux") return process.resourceUsage().maxRSS * 1024;
  const status = readFileSync("/proc/self/status", "utf8");
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)[1]) * 1024;
}

/** Bytes of the device's buffers now, by label. */
function countBuffers(device) {
  const live = new Set();
  const create = device.createBuffer;
  device.createBuffer = (descriptor) => {
    const buffer = create.call(device, descriptor);
    const destroy = buffer.destroy;
    live.add(buffer);
    buffer.destroy = () => {
      live.delete(buffer);
      destroy.call(buffer);
    };
    return buffer;
  };
  return (counted = () => true) =>
    [...live].reduce((sum, { label, size }) => sum + (counted(label) ? size : 0), 0);
}

/** Launches of each submit of `device`, in order. */
function countLaunches(device) {
  const submitted = [];
  let launches = 0;
  const { prototype } = globalThis.GPUComputePassEncoder;
  for (const name of ["dispatchWorkgroups", "dispatchWorkgroupsIndirect"]) {
    const dispatch = prototype[name];
    prototype[name] = function (...grid) {
      launches += 1;
      dispatch.apply(this, grid);
    };
  }
  const submit = device.queue.submit;
  device.queue.submit = (buffers) => {
    submitted.push(launches);
    launches = 0;
    submit.call(device.queue, buffers);
  };
  return submitted;
}

/** What most of the submits from `first` on have, those without launches aside. */
function launchesOfMost(submitted, first) {
  const times = new Map();
  for (const launches of submitted.slice(first)) {
    if (launches > 0) times.set(launches, (times.get(launches) ?? 0) + 1);
  }
  return [...times].reduce((most, one) => (one[1] > most[1] ? one : most), [0, 0])[0];
}

let peakHeap = 0;
const sample = () => {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  peakHeap = Math.max(peakHeap, heapUsed + arrayBuffers);
};

/** Looks at the memory at each write to `device`: what is written is in memory then, in every form. */
function sampleWrites({ queue }) {
  const write = queue.writeBuffer;
  queue.writeBuffer = (...args) => {
    sample();
    write.apply(queue, args);
  };
}

const config = JSON.parse(readFileSync(join(model, "config.json"), "utf8"));
/** Other tokens in each round, so that nothing can be had from the round before. */
const tokensOf = (count, round) =>
  Array.from(
    { length: count },
    (_, i) => 300 + ((i * 7919 + round * 104729) % (config.vocab_size - 300)),
  );

/** Processor seconds of all threads. */
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/**
 * Tokens a second, and processor seconds a token, of the prompts, and of what follows when each
 * sequence has its first token.
 */
async function generate(engine, round, { prompt, generated }) {
  const sampling = { temperature: 0, ignoreEos: true, maxNewTokens: generated };
  const now = () => ({ wall: performance.now(), cpu: cpu(), submits: submitted.length });
  const start = tokensOf(Math.min(shared, prompt), round * batch);
  const started = now();
  if (start.length > 0) {
    for await (const _ of engine.generate({ tokens: start, sampling: { maxNewTokens: 1 } }));
  }
  const marks = [];
  const tokens = [];
  let begun = 0;
  let decoded = 0;
  const run = async (_, s) => {
    let count = 0;
    const own = tokensOf(prompt, round * batch + s).slice(start.length);
    const request = { tokens: [...start, ...own], sampling };
    for await (const chunk of engine.generate(request)) {
      if (chunk.tokens.length === 0) continue;
      if (count === 0) begun += 1;
      else if (marks.length > 0) decoded += chunk.tokens.length;
      count += chunk.tokens.length;
      if (s === 0) tokens.push(...chunk.tokens);
      if (begun === batch) marks.push(now());
    }
  };
  await Promise.all(Array.from({ length: batch }, run));
  const [first] = marks;
  const last = marks.at(-1);
  const computed = start.length + batch * (prompt - start.length);
  return {
    prefill: (1000 * computed) / (first.wall - started.wall),
    prefillCpu: (first.cpu - started.cpu) / computed,
    decode: (1000 * decoded) / (last.wall - first.wall),
    decodeCpu: (last.cpu - first.cpu) / decoded,
    launchesPerStep: launchesOfMost(submitted, first.submits),
    tokens,
  };
}

const source = await openFolder(model);
// As the server does.
const { device, adapter } = await openDevice({ driverThreads: await driverThreadsFor(source) });
const submitted = countLaunches(device);
const bufferBytes = countBuffers(device);
sampleWrites(device);
const started = performance.now();
let weightsRead = started;
let bytesWhileLoading = 0;
const engine = await Engine.load(source, {
  device,
  ...options,
  onProgress({ phase }) {
    sample();
    if (phase !== "weights") return;
    weightsRead = performance.now();
    bytesWhileLoading = bufferBytes();
  },
});
sample();
const loaded = {
  seconds: (performance.now() - started) / 1000,
  weightsSeconds: (weightsRead - started) / 1000,
  peakHeap,
  peakResident: peakResident(),
  // Buffers that come after the weights are not in memory before their first use.
  bufferBytes: bytesWhileLoading,
};

// Once without counting, as much is done at the first launch.
const few = Math.min(prompt, Math.ceil(WARM_UP_TOKENS / batch));
await generate(engine, rounds, { prompt: few, generated: Math.min(generated, WARM_UP_GENERATED) });
const runs = [];
for (let round = 0; round < rounds; round++) {
  runs.push(await generate(engine, round, { prompt, generated }));
}
const { weightBytes, cacheBytes } = engine.memoryPlan;
const errors = engine.quantizationErrors.map(({ relativeError }) => relativeError);
console.log(
  JSON.stringify({
    adapter: adapter.name,
    loaded,
    after: { peakResident: peakResident(), bufferBytes: bufferBytes() },
    weightBytes,
    cacheBytes,
    // Of the token table, in BF16, a token reads one row.
    bytesPerToken: weightBytes - 2 * config.vocab_size * config.hidden_size,
    quantized: errors.length,
    worstError: Math.max(0, ...errors),
    runs,
  }),
);
await engine.close();

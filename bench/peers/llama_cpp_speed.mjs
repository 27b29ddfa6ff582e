// Speed of llama.cpp's CPU or Vulkan backend in a process of its own, as one line of JSON.
//
//   node bench/peers/llama_cpp_speed.mjs '{"model": FILE, "backend": "cpu" or "vulkan",
//     "threads": COUNT, "batch": SEQUENCES, "prompt": TOKENS, "generated": TOKENS, "rounds": TIMES,
//     "vocabulary": COUNT}'
//
// The first evaluation on Vulkan compiles shaders, for minutes where the driver has not kept them.

import { performance } from "node:perf_hooks";
import { getLlama } from "node-llama-cpp";

const { model: modelPath, ...options } = JSON.parse(process.argv[2]);
const { backend, threads, batch, prompt, generated, rounds, vocabulary } = options;
const contextSize = prompt + generated;

const llama = await getLlama({
  gpu: backend === "vulkan" && "vulkan",
  build: "never",
  logLevel: "error",
  maxThreads: threads,
});
const model = await llama.loadModel({
  modelPath,
  gpuLayers: backend === "vulkan" ? "max" : 0,
  ignoreMemorySafetyChecks: true,
});
const context = await model.createContext({
  contextSize,
  sequences: batch,
  batchSize: Math.max(prompt, batch),
  threads,
  ignoreMemorySafetyChecks: true,
});
const sequences = Array.from({ length: batch }, () => context.getSequence());

/** Other tokens in each sequence and round, so that nothing can be had from another one. */
const tokensOf = (round, s) =>
  Array.from(
    { length: prompt },
    (_, i) => 300 + ((i * 7919 + (round * batch + s) * 104729) % (vocabulary - 300)),
  );

/** Processor seconds of all threads. */
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/** Tokens a second of the prompts, and of what follows when each sequence has its first token. */
async function generate(round) {
  for (const sequence of sequences) await sequence.clearHistory();
  const started = { wall: performance.now(), cpu: cpu() };
  let begun = 0;
  let first;
  let decoded = 0;
  const run = async (sequence, s) => {
    let count = 0;
    const options = { temperature: 0, yieldEogToken: true };
    for await (const _ of sequence.evaluate(tokensOf(round, s), options)) {
      if (count === 0 && ++begun === batch) first = { wall: performance.now(), cpu: cpu() };
      else if (begun === batch) decoded += 1;
      if (++count === generated) break;
    }
  };
  await Promise.all(sequences.map(run));
  return {
    prefill: (1000 * batch * prompt) / (first.wall - started.wall),
    prefillCpu: (first.cpu - started.cpu) / (batch * prompt),
    decode: (1000 * decoded) / (performance.now() - first.wall),
    decodeCpu: (cpu() - first.cpu) / decoded,
  };
}

const runs = [];
const started = performance.now();
await generate(rounds);
const warmUp = (performance.now() - started) / 1000;
for (let round = 0; round < rounds; round++) runs.push(await generate(round));
console.log(JSON.stringify({ warmUp, device: (await llama.getGpuDeviceNames())[0], runs }));
await llama.dispose();

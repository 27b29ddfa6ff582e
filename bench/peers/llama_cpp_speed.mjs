// Speed of llama.cpp's CPU or Vulkan backend in a process of its own, as one line of JSON.
//
//   node bench/peers/llama_cpp_speed.mjs '{"model": FILE, "backend": "cpu" or "vulkan",
//     "threads": COUNT, "prompt": TOKENS, "generated": TOKENS, "rounds": TIMES, "vocabulary": COUNT}'
//
// The first evaluation on Vulkan compiles shaders, for minutes where the driver has not kept them.

import { performance } from "node:perf_hooks";
import { getLlama } from "node-llama-cpp";

const { model: modelPath, ...options } = JSON.parse(process.argv[2]);
const { backend, threads, prompt, generated, rounds, vocabulary } = options;
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
  batchSize: prompt,
  threads,
  ignoreMemorySafetyChecks: true,
});
const sequence = context.getSequence();

/** Other tokens in each round, so that nothing can be had from the round before. */
const tokensOf = (round) =>
  Array.from({ length: prompt }, (_, i) => 300 + ((i * 7919 + round * 104729) % (vocabulary - 300)));

/** Processor seconds of all threads. */
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/** Tokens a second of the prompt, and of what follows the first generated token. */
async function generate(round) {
  await sequence.clearHistory();
  const started = { wall: performance.now(), cpu: cpu() };
  let first;
  let count = 0;
  const options = { temperature: 0, yieldEogToken: true };
  for await (const _ of sequence.evaluate(tokensOf(round), options)) {
    first ??= { wall: performance.now(), cpu: cpu() };
    if (++count === generated) break;
  }
  const decoded = count - 1;
  return {
    prefill: (1000 * prompt) / (first.wall - started.wall),
    prefillCpu: (first.cpu - started.cpu) / prompt,
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

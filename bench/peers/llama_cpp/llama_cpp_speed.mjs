// Speed of llama.cpp's CPU or Vulkan backend in a process of its own, as one line of JSON.
//
//   node bench/peers/llama_cpp/llama_cpp_speed.mjs '{"model": FILE, "backend": "cpu" or "vulkan",
//     "threads": COUNT, "batch": SEQUENCES, "prompt": TOKENS, "generated": TOKENS, "rounds": TIMES,
//     "vocabulary": COUNT}'
//
// The first evaluation on Vulkan compiles shaders, for minutes where the driver has not kept them.

import { performance } from "node:perf_hooks";
import { getLlama } from "node-llama-cpp";

const { model: modelPath, ...options } = JSON.parse(process.argv[2]);
const { backend, threads, batch, prompt, generated, rounds, vocabulary } = options;
/** Of the prompts of the first round together, and of what follows each. */
const WARM_UP_TOKENS = 512;
const WARM_UP_GENERATED = 4;
const MOST_BATCH_TOKENS = 512;
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
  // Longer ones take more time a token.
  batchSize: Math.min(batch * prompt, MOST_BATCH_TOKENS),
  // Where the backend has it: left to itself the package has none for latent attention.
  flashAttention: "auto",
  threads,
  ignoreMemorySafetyChecks: true,
});
const sequences = Array.from({ length: batch }, () => context.getSequence());

/** Other tokens in each sequence and round, so that nothing can be had from another one. */
const tokensOf = (count, round, s) =>
  Array.from(
    { length: count },
    (_, i) => 300 + ((i * 7919 + (round * batch + s) * 104729) % (vocabulary - 300)),
  );

/** Processor seconds of all threads. */
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/**
 * Tokens a second of the prompts, and of what follows when each sequence has its first token. All
 * sequences ask for their next token at once: left to themselves some miss the batch of the others.
 */
async function generate(round, { prompt, generated }) {
  for (const sequence of sequences) await sequence.clearHistory();
  const greedy = { temperature: 0, yieldEogToken: true };
  const answers = sequences.map((one, s) => one.evaluate(tokensOf(prompt, round, s), greedy));
  const now = () => ({ wall: performance.now(), cpu: cpu() });
  const next = async () => {
    await Promise.all(answers.map((answer) => answer.next()));
    return now();
  };
  const started = now();
  const first = await next();
  let last = first;
  for (let count = 1; count < generated; count++) last = await next();
  for (const answer of answers) await answer.return();
  const decoded = batch * (generated - 1);
  return {
    prefill: (1000 * batch * prompt) / (first.wall - started.wall),
    prefillCpu: (first.cpu - started.cpu) / (batch * prompt),
    decode: (1000 * decoded) / (last.wall - first.wall),
    decodeCpu: (last.cpu - first.cpu) / decoded,
  };
}

const runs = [];
const started = performance.now();
const few = Math.min(prompt, Math.ceil(WARM_UP_TOKENS / batch));
await generate(rounds, { prompt: few, generated: Math.min(generated, WARM_UP_GENERATED) });
const warmUp = (performance.now() - started) / 1000;
for (let round = 0; round < rounds; round++) {
  runs.push(await generate(round, { prompt, generated }));
}
console.log(JSON.stringify({ warmUp, device: (await llama.getGpuDeviceNames())[0], runs }));
await llama.dispose();

// One start of the built library in a process of its own: loads the default model, generates, and
// prints what it took as one line of JSON.

import { performance } from "node:perf_hooks";
import { Engine } from "../dist/node_index.js";
import { defaultModelPath, openDevice, openFolder } from "../dist/node.js";

const SAMPLE_MS = 2;
/** Pipelines that are told about by name. */
const SLOWEST = 6;
const REQUEST = {
  messages: [{ role: "user", content: "What is the capital of Japan?" }],
  sampling: { temperature: 0, maxNewTokens: 16 },
};

let most = 0;
const sample = () => {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  most = Math.max(most, heapUsed + arrayBuffers);
};

/** Milliseconds to the first token, and the whole text. */
async function generate(engine) {
  const started = performance.now();
  let first;
  let text = "";
  for await (const chunk of engine.generate(REQUEST)) {
    if (chunk.tokens.length > 0) first ??= performance.now() - started;
    text += chunk.text;
  }
  return { first, text };
}

const { device, adapter } = await openDevice();
const opened = performance.now();
const timer = setInterval(sample, SAMPLE_MS);
let weightsRead = opened;
const engine = await Engine.load(await openFolder(defaultModelPath()), {
  device,
  onProgress({ phase }) {
    sample();
    if (phase === "weights") weightsRead = performance.now();
  },
});
sample();
clearInterval(timer);
const loaded = performance.now();
const cold = await generate(engine);
const warm = await generate(engine);
console.log(
  JSON.stringify({
    adapter: adapter.name,
    processToDevice: opened,
    weights: weightsRead - opened,
    pipelines: engine.pipelines.length,
    slowest: [...engine.pipelines]
      .sort((a, b) => b.milliseconds - a.milliseconds)
      .slice(0, SLOWEST),
    pipelinesAndTrial: loaded - weightsRead,
    load: loaded - opened,
    firstToken: cold.first,
    nextFirstToken: warm.first,
    texts: [cold.text, warm.text],
    peakBytes: most,
  }),
);
await engine.close();

// ONNX Runtime's WebGPU provider in a process of its own, as it brings another Dawn along.
//
// Messages from the parent, answered in order:
//   {open: NAME, model: Uint8Array, inputs: {INPUT: {type, shape, data}}, resident: {INPUT: OUTPUT},
//     fetch: OUTPUT} -> {output: elements of the fetched output}
//   {run: NAME, times: COUNT} -> {seconds, cpuSeconds}, each the least
//   {close: NAME} -> {}
// `resident` names inputs that are uploaded once and are updated in place as the output they name.
// All others are uploaded in every run, and the fetched output is read back.

import { performance } from "node:perf_hooks";
import { InferenceSession, Tensor } from "onnxruntime-node";

const sessions = new Map();

async function open({ open: name, model, inputs, resident, fetch }) {
  const outputs = Object.values(resident);
  const session = await InferenceSession.create(model, {
    executionProviders: ["webgpu"],
    // Equal nodes would become one.
    graphOptimizationLevel: "disabled",
    // The work is the provider's; idle threads of the CPU's would spin beside it.
    intraOpNumThreads: 1,
    ...(outputs.length > 0 && {
      preferredOutputLocation: Object.fromEntries(outputs.map((output) => [output, "gpu-buffer"])),
    }),
  });
  const feeds = Object.fromEntries(
    Object.entries(inputs).map(([input, { type, shape, data }]) => [
      input,
      new Tensor(type, data, shape),
    ]),
  );
  const fetches = { [fetch]: null };
  if (outputs.length > 0) {
    const first = await session.run(feeds, [fetch, ...outputs]);
    for (const [input, output] of Object.entries(resident)) {
      feeds[input] = first[output];
      fetches[output] = first[output];
    }
  }
  sessions.set(name, { session, feeds, fetches });
  const results = await session.run(feeds, fetches);
  return { output: results[fetch].data };
}

async function run({ run: name, times }) {
  const { session, feeds, fetches } = sessions.get(name);
  let [seconds, cpuSeconds] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let i = 0; i < times; i++) {
    const before = process.cpuUsage();
    const started = performance.now();
    await session.run(feeds, fetches);
    seconds = Math.min(seconds, (performance.now() - started) / 1e3);
    const { user, system } = process.cpuUsage(before);
    cpuSeconds = Math.min(cpuSeconds, (user + system) / 1e6);
  }
  return { seconds, cpuSeconds };
}

async function close({ close: name }) {
  await sessions.get(name).session.release();
  sessions.delete(name);
  return {};
}

process.on("message", (message) => {
  const work = message.open ? open : message.run ? run : close;
  work(message).then(
    (result) => process.send(result),
    (error) => process.send({ error: String(error?.stack ?? error) }),
  );
});

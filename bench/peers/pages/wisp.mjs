// A page that generates an answer with an engine in a worker, from the model that lies beside it:
// stored in the browser first, as transformers.js does with its files.

import { openModelStore } from "../../../src/browser/storage/storage.ts";
import { loadWorkerEngine } from "../../../src/browser/worker/worker_engine.ts";
import { reporting } from "../../../test/browser/pages/report.ts";

await reporting(async () => {
  const seconds = () => performance.now() / 1000;
  const program = seconds();
  const store = await openModelStore();
  const name = await store.add({ kind: "url", url: new URL("model/", location.href).href });
  const engine = await loadWorkerEngine(
    { kind: "store", name },
    { contextLength: 512, maxRunningRequests: 1 },
  );
  const loaded = seconds();
  const tokens = [];
  let firstToken = 0;
  const sampling = { temperature: 0, maxNewTokens: 8, ignoreEos: true };
  const prompt = "What is the capital of Japan?";
  for await (const chunk of engine.generate({ prompt, sampling })) {
    if (tokens.length === 0 && chunk.tokens.length > 0) firstToken = seconds();
    tokens.push(...chunk.tokens);
  }
  await engine.close();
  return { seconds: { program, loaded, firstToken }, tokens };
});

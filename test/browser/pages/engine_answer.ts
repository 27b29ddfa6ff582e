/**
 * A page that asks the model that lies beside it one question: on the page itself, or with `worker`
 * in the query of an engine in a worker.
 *
 * @module
 */
import { openDevice } from "../../../src/browser/device.ts";
import { urlSource } from "../../../src/browser/url_source.ts";
import { loadWorkerEngine } from "../../../src/browser/worker_engine.ts";
import { Engine } from "../../../src/engine/engine.ts";
import type { GenerationEngine } from "../../../src/generation.ts";
import { reporting } from "./report.ts";

export interface Answered {
  readonly text: string;
  /** Those that brought tokens. */
  readonly chunks: number;
  /** Of loading, and from the question to the first and to the last token. */
  readonly seconds: { readonly load: number; readonly first: number; readonly all: number };
}

const options = { contextLength: 512, maxRunningRequests: 1 } as const;

async function load(inWorker: boolean, url: string): Promise<GenerationEngine> {
  if (inWorker) return loadWorkerEngine({ kind: "url", url }, options);
  return Engine.load(await urlSource(url), { device: await openDevice(), ...options });
}

await reporting(async (): Promise<Answered> => {
  const wanted = new URLSearchParams(location.search);
  const started = performance.now();
  const seconds = (since: number) => (performance.now() - since) / 1000;
  const engine = await load(wanted.has("worker"), new URL("model/", location.href).href);
  const loadSeconds = seconds(started);
  const asked = performance.now();
  let first = 0;
  let chunks = 0;
  let text = "";
  const messages = [{ role: "user", content: wanted.get("question") ?? "" }];
  for await (const chunk of engine.generate({ messages, sampling: { temperature: 0 } })) {
    text += chunk.text;
    if (chunk.tokens.length === 0) continue;
    if (chunks === 0) first = seconds(asked);
    chunks += 1;
  }
  const all = seconds(asked);
  await engine.close();
  return { text, chunks, seconds: { load: loadSeconds, first, all } };
});

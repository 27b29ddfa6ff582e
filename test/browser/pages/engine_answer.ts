/**
 * A page that asks the model that lies beside it one question: on the page itself, with `worker` in
 * the query of an engine in a worker, with `store` of one there that reads the browser's own storage.
 *
 * @module
 */
import { openDevice } from "../../../src/browser/device.ts";
import { urlSource } from "../../../src/browser/download/url_source.ts";
import { openModelStore } from "../../../src/browser/storage/storage.ts";
import { loadWorkerEngine } from "../../../src/browser/worker/worker_engine.ts";
import { Engine } from "../../../src/engine/engine.ts";
import type { GenerationEngine } from "../../../src/generation.ts";
import { reporting } from "./report.ts";

export interface Answered {
  readonly text: string;
  /** Those that brought tokens. */
  readonly chunks: number;
  /** Seconds from the visit of the page to... */
  readonly seconds: {
    /** ...the first line of the program. */
    readonly program: number;
    /** ...a model that is stored, where it is stored. */
    readonly stored: number;
    readonly loaded: number;
    readonly firstToken: number;
    readonly lastToken: number;
  };
}

const options = { contextLength: 512, maxRunningRequests: 1 } as const;

const wanted = new URLSearchParams(location.search);
const seconds = () => performance.now() / 1000;

async function load(url: string, name: string | undefined): Promise<GenerationEngine> {
  if (name !== undefined) return loadWorkerEngine({ kind: "store", name }, options);
  if (wanted.has("worker")) return loadWorkerEngine({ kind: "url", url }, options);
  return Engine.load(await urlSource(url), { device: await openDevice(), ...options });
}

await reporting(async (): Promise<Answered> => {
  const program = seconds();
  const url = new URL("model/", location.href).href;
  const store = wanted.has("store") ? await openModelStore() : undefined;
  const name = await store?.add({ kind: "url", url });
  const stored = seconds();
  const engine = await load(url, name);
  const loaded = seconds();
  let firstToken = 0;
  let chunks = 0;
  let text = "";
  const messages = [{ role: "user", content: wanted.get("question") ?? "" }];
  for await (const chunk of engine.generate({ messages, sampling: { temperature: 0 } })) {
    text += chunk.text;
    if (chunk.tokens.length === 0) continue;
    if (chunks === 0) firstToken = seconds();
    chunks += 1;
  }
  const lastToken = seconds();
  await engine.close();
  return { text, chunks, seconds: { program, stored, loaded, firstToken, lastToken } };
});

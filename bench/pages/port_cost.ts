/**
 * A page that takes chunks from an engine which has nothing to compute: from one of its own, and
 * through the port of one in a worker. What the second takes longer is the cost of the port.
 *
 * @module
 */
import { messagePort } from "../../src/engine/remote/port.ts";
import { RemoteEngine } from "../../src/engine/remote/remote_engine.ts";
import type { GenerationEngine } from "../../src/generation.ts";
import { reporting } from "../../test/browser/pages/report.ts";
import { CHUNKS, instantEngine } from "./instant_engine.ts";

const ROUNDS = 5;

export interface PortCost {
  /** Microseconds a chunk, of the fastest round. */
  readonly page: number;
  readonly worker: number;
  readonly text: string;
}

async function take(engine: GenerationEngine) {
  const started = performance.now();
  let text = "";
  for await (const chunk of engine.generate({ prompt: "x" })) text += chunk.text;
  return { microseconds: (1000 * (performance.now() - started)) / CHUNKS, text };
}

await reporting(async (): Promise<PortCost> => {
  const worker = new Worker(new URL("./port_worker.ts", import.meta.url), { type: "module" });
  const { port1, port2 } = new MessageChannel();
  worker.postMessage(port2, [port2]);
  const remote = await RemoteEngine.connect(messagePort(port1));
  const engines = { page: instantEngine(), worker: remote };
  const least = { page: Number.POSITIVE_INFINITY, worker: Number.POSITIVE_INFINITY };
  const texts = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const where of ["page", "worker"] as const) {
      const { microseconds, text } = await take(engines[where]);
      least[where] = Math.min(least[where], microseconds);
      texts.add(text);
    }
  }
  if (texts.size !== 1) throw new Error("the engines do not say the same");
  return { ...least, text: [...texts][0]! };
});

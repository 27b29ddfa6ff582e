/**
 * A page that generates the same tokens with an engine of its own and with one in a worker, in turns.
 *
 * @module
 */
import { openDevice } from "../../src/browser/device.ts";
import { urlSource } from "../../src/browser/download/url_source.ts";
import { loadWorkerEngine } from "../../src/browser/worker/worker_engine.ts";
import { Engine } from "../../src/engine/engine.ts";
import { reporting } from "../../test/browser/pages/report.ts";
import { RATE_OPTIONS, type TokenRate, tokenRate } from "../serving/token_rate.ts";

export type EngineRates = Readonly<Record<"page" | "worker", TokenRate>>;

await reporting(async (): Promise<EngineRates> => {
  const url = new URL("model/", location.href).href;
  const device = await openDevice();
  const page = await Engine.load(await urlSource(url), { device, ...RATE_OPTIONS });
  const worker = await loadWorkerEngine({ kind: "url", url }, RATE_OPTIONS);
  const [onPage, inWorker] = await tokenRate([page, worker]);
  await page.close();
  await worker.close();
  return { page: onPage!, worker: inWorker! };
});

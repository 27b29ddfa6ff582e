/** `GET /health` of a server whose engine is full, then loses its device. */
import { expect, test, vi } from "vitest";
import { Engine } from "../../../src/engine/engine.ts";
import { openDevice } from "../../../src/node/device/device.ts";
import { serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { EMBEDDED_MODEL } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

/** Far more than run at a time. */
const REQUESTS = 24;

test.skipIf(smallestCaseOnly)(
  "/health needs no place of a full engine, and is 503 once its device is lost",
  async () => {
    const { device } = await openDevice();
    const engine = await Engine.load(folderSource(EMBEDDED_MODEL), {
      device,
      maxTotalTokens: 4096,
      maxRunningRequests: 2,
    });
    const reportError = vi.fn();
    const server = await serve(createApp(engine, { reportError }), { host: "127.0.0.1", port: 0 });
    const sampling_params = { max_new_tokens: 1000, ignore_eos: true };
    const answers = Array.from({ length: REQUESTS }, async (_, i) => {
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify({ text: `Number ${i}`, sampling_params });
      return (await fetch(`${server.url}/generate`, { method: "POST", headers, body })).status;
    });
    const busy = () => engine.status().runningRequests + engine.status().queuedRequests;
    await until(() => expect(busy()).toBe(REQUESTS));
    const waits: number[] = [];
    for (let i = 0; i < 20; i++) {
      const start = performance.now();
      expect((await fetch(`${server.url}/health`)).status).toBe(200);
      waits.push(performance.now() - start);
      expect(busy()).toBe(REQUESTS);
    }
    // The best of many: what else the machine does is not the server's.
    expect(Math.min(...waits)).toBeLessThan(200);

    device.destroy();
    expect(await Promise.all(answers)).toEqual(new Array(REQUESTS).fill(500));
    expect((await fetch(`${server.url}/health`)).status).toBe(503);
    expect((await fetch(`${server.url}/health_generate`)).status).toBe(503);
    await server.close();
    await engine.close();
  },
);

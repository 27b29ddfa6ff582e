/** A load on a real server with the embedded model. */
import { expect, test } from "vitest";
import { serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { startCommand } from "../../support/package/run_command.ts";

// Prompts and tokens are counted alike on every driver.
test.skipIf(smallestCaseOnly)(
  "wisp bench_serving counts every token of every backend",
  async () => {
    const engine = await openEngine();
    const server = await serve(createApp(engine), { host: "127.0.0.1", port: 0 });
    const load = "--num-prompts 6 --max-concurrency 4 --random-input-len 40 --random-output-len 12";
    try {
      for (const backend of ["native", "openai", "openai-chat"]) {
        const where = ["--base-url", server.url, "--backend", backend];
        const command = startCommand(["bench_serving", ...where, ...load.split(" ")]);
        expect(await command.code, command.stderr()).toBe(0);
        const table = command.stdout();
        expect(table).toMatch(/^Successful requests: +6$/m);
        expect(table).toMatch(/^Total generated tokens: +72$/m);
        const input = Number(/^Total input tokens: +(\d+)$/m.exec(table)![1]);
        if (backend !== "openai-chat") expect(input).toBe(240);
        // A word is not always as many tokens as the average one.
        else expect(Math.abs(input / 240 - 1)).toBeLessThan(0.2);
      }
      expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 });
    } finally {
      await server.close();
      await engine.close();
    }
  },
);

import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { launchFirefox, whyNoFirefox } from "../../support/browser/firefox.ts";
import { serveProgram } from "../../support/browser/web_page.ts";
import type { ReadbackTimes } from "../pages/readback_times.ts";

test("results come back from Firefox without its wait of 100 ms", async (context) => {
  const reason = whyNoFirefox();
  if (reason !== undefined) return context.skip(reason);
  const program = fileURLToPath(new URL("../pages/readback_times.ts", import.meta.url));
  const server = await serveProgram(program);
  const firefox = launchFirefox(server.address);
  context.onTestFinished(async () => {
    await firefox.close();
    await server.close();
  });
  const early = firefox.ended.then((how) => {
    throw new Error(`${how} before its page reported: ${firefox.log()}`);
  });
  const { opened, plain, isRight } = await Promise.race([server.report<ReadbackTimes>(), early]);
  console.log(`readback: ${opened} ms, without the remedy ${plain} ms`);
  expect(isRight).toBe(true);
  expect(opened).toBeLessThan(plain / 2);
}, 60_000);

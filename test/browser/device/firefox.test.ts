import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, type TestContext, test } from "vitest";
import { launchFirefox, whyNoFirefox } from "../../support/browser/firefox.ts";
import { serveProgram, type WebPageOptions } from "../../support/browser/web_page.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import type { Answered } from "../pages/engine_answer.ts";
import type { CheckedKernels } from "../pages/kernel_checks.ts";

const KERNELS = fileURLToPath(new URL("../../../kernels", import.meta.url));
const QUESTION = "What is the capital of Japan?";
const ANSWER = "The capital of Japan is Tokyo.";
const fullTest = process.env.WISP_TEST_FULL === "1";

interface Visit extends WebPageOptions {
  readonly program: string;
  readonly query?: string;
}

/** What a program reports that Firefox opens; skips the test where there is no Firefox. */
async function visited<T>(context: TestContext, { program, query = "", ...rest }: Visit) {
  const reason = whyNoFirefox();
  if (reason !== undefined) return context.skip(reason);
  const path = fileURLToPath(new URL(`../pages/${program}.ts`, import.meta.url));
  const server = await serveProgram(path, rest);
  const firefox = launchFirefox(server.address + query);
  context.onTestFinished(async () => {
    await firefox.close();
    await server.close();
  });
  const early = firefox.ended.then((how) => {
    throw new Error(`${how} before its page reported: ${firefox.log()}`);
  });
  return Promise.race([server.report<T>(), early]);
}

test(
  "every kernel answers as its check promises, in Firefox",
  async (context) => {
    const { cases, left, errors, features } = await visited<CheckedKernels>(context, {
      program: "kernel_checks",
      query: fullTest ? "?tunings&cases" : "",
    });
    expect(cases.filter(({ problem }) => problem !== undefined)).toEqual([]);
    expect(errors).toEqual([]);
    // What the portable forms of kernels are there for.
    expect(features).not.toContain("subgroups");
    const checks = readdirSync(KERNELS, { recursive: true, encoding: "utf8" });
    const names = new Set([...cases.map(({ kernel }) => kernel), ...left]);
    expect(names.size).toBe(checks.filter((name) => name.endsWith(".check.ts")).length);
  },
  fullTest ? 1_800_000 : 300_000,
);

for (const where of fullTest ? ["page", "worker"] : ["worker"]) {
  test(`a model in a ${where} answers in Firefox`, async (context) => {
    const query = `?question=${encodeURIComponent(QUESTION)}&${where}`;
    const program = "engine_answer";
    const answer = await visited<Answered>(context, { program, query, model: EMBEDDED_MODEL });
    expect(answer.text).toBe(ANSWER);
    expect(answer.chunks).toBeGreaterThan(3);
  }, 300_000);
}

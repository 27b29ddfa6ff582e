import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { defaultModelPath } from "../../../src/node/package_root.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";
import type { ChromeTrace } from "../../../src/profile.ts";
import { until } from "../../support/until.ts";

/** The real program, from the command line to the GPU and back over a socket. */
describe.skipIf(!existsSync(defaultModelPath()))(
  "wisp launch_server with the default model",
  () => {
    let stdout = "";
    let log = "";
    let code: Promise<number>;
    let url: string;
    const profiles = mkdtempSync(join(tmpdir(), "wisp-profiles-"));

    beforeAll(async () => {
      let ready = () => {};
      const isReady = new Promise<void>((resolve) => {
        ready = resolve;
      });
      const write = (text: string) => {
        log += text;
        if (/^Ready: .*\n$/m.test(log)) ready();
      };
      const answers = { write: (text: string) => (stdout += text) };
      const args = ["launch_server", "--port", "0", "--context-length", "512"];
      args.push("--enable-metrics", "--log-requests", "--decode-log-interval", "4");
      args.push("--profile-dir", profiles);
      code = runCommand(args, { startEngine, stdout: answers, stderr: { write } });
      await Promise.race([isReady, code]);
      url = /Listening on (\S+)/.exec(log)![1]!;
    }, 120_000);

    afterAll(async () => {
      (process.listeners("SIGTERM").at(-1) as (name: string, number: number) => void)(
        "SIGTERM",
        15,
      );
      expect(await code).toBe(0);
      expect(stdout).toBe("");
      rmSync(profiles, { recursive: true });
    });

    const client = () => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
    const request = {
      model: "default",
      messages: [{ role: "user" as const, content: "What is 2 + 3?" }],
      temperature: 0,
      max_tokens: 24,
    };

    test("says model, adapter, memory, progress and address in this order", () => {
      const wanted = [
        "Model",
        "Adapter",
        "Memory",
        "Steps",
        "Loading weights",
        "Compiling kernels",
      ];
      const heads = log.split("\n").map((line) => line.replace(/:.*| on .*/, ""));
      const order = [...wanted, "Listening"].map((head) => heads.indexOf(head));
      expect(order).not.toContain(-1);
      expect(order).toEqual(order.toSorted((x, y) => x - y));
    });

    test("the embedded model is served under the name of its folder", async () => {
      const [model] = (await client().models.list()).data;
      expect(model!.id).toBe("tiny-deepseek-v3");
      expect(await client().models.retrieve(model!.id)).toMatchObject({ id: model!.id });
      const { model: _, ...unnamed } = request;
      const body = JSON.stringify({ ...unnamed, max_tokens: 1 });
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
      expect(await answer.json()).toMatchObject({ model: "tiny-deepseek-v3" });
    });

    test("the openai client gets the same answer at once and in pieces", async () => {
      const whole = await client().chat.completions.create(request);
      const text = whole.choices[0]!.message.content!;
      expect(text.length).toBeGreaterThan(0);
      expect(whole.usage!.completion_tokens).toBeLessThanOrEqual(24);
      let streamed = "";
      let finish: string | null = null;
      for await (const chunk of await client().chat.completions.create({
        ...request,
        stream: true,
      })) {
        streamed += chunk.choices[0]?.delta.content ?? "";
        finish = chunk.choices[0]?.finish_reason ?? finish;
      }
      expect(streamed).toBe(text);
      expect(finish).toBe(whole.choices[0]!.finish_reason);
    });

    test("logs its steps and the request, and counts both", async () => {
      const before = log.length;
      const { usage } = await client().chat.completions.create(request);
      const lines = log.slice(before);
      expect(lines).toMatch(/Prefill batch\. #new-seq: 1, #new-token: \d+, #cached-token: \d+, /);
      expect(lines).toMatch(/Decode batch\. #running-req: 1, #token: \d+, token usage: /);
      expect(lines).toMatch(
        new RegExp(`Finish request\\. rid: \\w+, prompt_tokens: ${usage!.prompt_tokens}, `),
      );
      const metrics = await (await fetch(`${url}/metrics`)).text();
      const value = (name: string) =>
        Number(new RegExp(`^wisp:${name}\\{.*\\} (\\S+)$`, "m").exec(metrics)![1]);
      expect(value("generation_tokens_total")).toBeGreaterThanOrEqual(usage!.completion_tokens);
      expect(value("cached_tokens_total")).toBeGreaterThan(0);
      expect(value("num_running_reqs")).toBe(0);
      expect(value("utilization")).toBe(0);
      expect(value("queue_time_s_count")).toBe(value("num_requests_total"));
      expect(value("queue_time_s_sum")).toBeGreaterThan(0);
      expect(value("max_total_num_tokens")).toBeGreaterThanOrEqual(512);
    });

    test("writes a profile of the steps that were asked for", async () => {
      const body = JSON.stringify({ num_steps: 2 });
      const headers = { "content-type": "application/json" };
      const started = await fetch(`${url}/start_profile`, { method: "POST", headers, body });
      expect(await started.text()).toBe("Start profiling.\n");
      await client().chat.completions.create(request);
      await until(() => expect(log).toMatch(/linear\/linear +\d+ +\d+ /));
      const [file, ...others] = readdirSync(profiles);
      expect(others).toEqual([]);
      const text = readFileSync(join(profiles, file!), "utf8");
      const { traceEvents, otherData } = JSON.parse(text) as ChromeTrace;
      expect(otherData).toMatchObject({ steps: 2, omittedSpans: 0 });
      const names = new Set(traceEvents.map(({ name }) => name));
      for (const name of ["linear/linear", "sampling/argmax", "schedule", "detokenize"]) {
        expect(names).toContain(name);
      }
    });

    test("a client that leaves stops its generation", async () => {
      const stream = await client().chat.completions.create({
        ...request,
        max_tokens: 400,
        stream: true,
      });
      for await (const _ of stream) break;
      stream.controller.abort();
      const next = await client().chat.completions.create({ ...request, max_tokens: 1 });
      expect(next.choices).toHaveLength(1);
    });
  },
);

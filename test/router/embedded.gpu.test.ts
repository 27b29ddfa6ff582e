/** Answers of the embedded model through the router are those of its servers, and find their caches. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { CacheAwarePolicy } from "../../src/router/policy/cache_aware.ts";
import { openEngine } from "../support/engines/engine.ts";
import { postTo, type RunningRouter, routerTo } from "../support/router/running_router.ts";
import { closeAll, serverOver } from "../support/router/worker_servers.ts";
import type { GenerateAnswer } from "../support/server/http_client.ts";

let engines: Engine[];
let direct: string;
let router: RunningRouter;

beforeAll(async () => {
  engines = [await openEngine(), await openEngine()];
  const urls: string[] = [];
  for (const engine of engines) urls.push((await serverOver(engine)).url);
  direct = urls[0]!;
  const policy = new CacheAwarePolicy({
    cacheThreshold: 0.3,
    balanceAbsThreshold: 64,
    balanceRelThreshold: 1.5,
    maxTreeSize: 2 ** 20,
  });
  router = await routerTo(urls, { policy });
});
afterAll(async () => {
  await closeAll();
  for (const engine of engines) await engine.close();
});

const sampling_params = { temperature: 0, max_new_tokens: 12 };

/** What does not follow the clock, the cache or chance. */
const bare = (text: string) =>
  text.replace(/"(created|e2e_latency|cached_tokens|id)":("[^"]*"|[\d.e-]+)/g, "");

describe("through the router", () => {
  test.each([
    ["/generate", { text: "Once upon a time", sampling_params }],
    ["/generate", { text: "Once upon a time", sampling_params, stream: true }],
    ["/generate", { text: ["One", "Two"], sampling_params, return_logprob: true }],
    ["/generate", { text: "The", sampling_params: { max_new_tokens: 8, n: 2, sampling_seed: 7 } }],
    [
      "/v1/chat/completions",
      { messages: [{ role: "user", content: "Hi" }], max_tokens: 8, seed: 3, logprobs: true },
    ],
    [
      "/v1/chat/completions",
      { messages: [{ role: "user", content: "Hi" }], max_tokens: 8, temperature: 0, stream: true },
    ],
  ])("%s answers to the bit: %j", async (path, body) => {
    const [routed, plain] = [
      await postTo(router.url, path, body),
      await postTo(direct, path, body),
    ];
    const text = await plain.text();
    expect([plain.status, text.length > 50], text).toEqual([200, true]);
    expect(bare(await routed.text())).toBe(bare(text));
  });

  test("turns of a conversation find the cache of those before", async () => {
    const talks = [
      "Tell me of rivers. ",
      "Name five colours. ",
      "Why is it late? ",
      "Who are you? ",
    ];
    const texts = talks.map((talk) => talk.repeat(12));
    const cached: number[][] = [];
    for (let turn = 0; turn < 2; turn++) {
      for (const [i, text] of texts.entries()) {
        const answer = await postTo(router.url, "/generate", { text, sampling_params });
        const { meta_info, text: said } = (await answer.json()) as GenerateAnswer;
        cached.push([meta_info.cached_tokens, meta_info.prompt_tokens]);
        texts[i] = `${text}${said} And then? `;
      }
    }
    for (const [tokens, ofPrompt] of cached.slice(0, talks.length)) {
      expect(tokens).toBeLessThan(ofPrompt! / 2);
    }
    for (const [tokens, ofPrompt] of cached.slice(talks.length)) {
      expect(tokens).toBeGreaterThan(ofPrompt! / 2);
    }
  });
});

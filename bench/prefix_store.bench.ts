/**
 * The first token of a prompt that is restored from files, beside one that is computed: the embedded
 * model, in one process, in turns.
 *
 * @module
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { expect, test } from "vitest";
import type { Engine } from "../src/engine/engine.ts";
import { prefixFiles } from "../src/node/prefix_files.ts";
import { openEngine } from "../test/support/engines/engine.ts";

const LENGTHS = [129, 513, 1025];
const ROUNDS = 5;

interface FirstToken {
  readonly token: number;
  readonly logprob: number | null;
  readonly cachedTokens: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** Computes a prompt, or restores it, with nothing of it in the GPU's cache. */
async function firstToken(engine: Engine, tokens: readonly number[]): Promise<FirstToken> {
  expect(await engine.flushCache()).toBe(true);
  const started = performance.now();
  const before = process.cpuUsage();
  const sampling = { maxNewTokens: 1, temperature: 0 };
  for await (const chunk of engine.generate({ tokens, sampling, logprobs: {} })) {
    const [first] = chunk.logprobs ?? [];
    if (first === undefined) continue;
    const { user, system } = process.cpuUsage(before);
    return {
      ...{ token: first.token, logprob: first.logprob, cachedTokens: chunk.cachedTokens },
      seconds: (performance.now() - started) / 1000,
      cpuSeconds: (user + system) / 1e6,
    };
  }
  throw new Error("no token");
}

const least = (runs: readonly FirstToken[], field: "seconds" | "cpuSeconds") =>
  Math.min(...runs.map((run) => run[field]));
const show = (runs: readonly FirstToken[]) =>
  `${(1000 * least(runs, "seconds")).toFixed(1)} ms (${(1000 * least(runs, "cpuSeconds")).toFixed(1)} of CPU)`;

test("the first token of a prompt, computed and restored", async () => {
  const folder = await mkdtemp(join(tmpdir(), "wisp-prefixes-"));
  const options = { maxTotalTokens: 4096 };
  const prefixStore = { storage: prefixFiles(folder), maxWait: 600 };
  const computing = await openEngine(options);
  const restoring = await openEngine({ ...options, prefixStore });
  try {
    for (const [i, length] of LENGTHS.entries()) {
      const tokens = Array.from({ length }, (_, j) => 3 + ((j * 31 + i) % 2000));
      const store = { tokens, sampling: { maxNewTokens: 1 }, storePrefix: true };
      const { prefixStore: status } = restoring.status();
      for await (const _ of restoring.generate(store));
      const wanted = status!.storedTokens + Math.floor(length / 64) * 64;
      while (restoring.status().prefixStore!.storedTokens < wanted) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      const computed: FirstToken[] = [];
      const restored: FirstToken[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        computed.push(await firstToken(computing, tokens));
        restored.push(await firstToken(restoring, tokens));
      }
      const [{ token, logprob }] = computed as [FirstToken];
      const same = { token, logprob };
      for (const run of computed) expect(run).toMatchObject({ ...same, cachedTokens: 0 });
      for (const run of restored) expect(run).toMatchObject({ ...same, cachedTokens: length - 1 });
      const bytes = restoring.status().prefixStore!.bytes - status!.bytes;
      console.log(
        `${length} tokens: computed ${show(computed)}, ` +
          `restored ${show(restored)} of ${(bytes / 2 ** 20).toFixed(2)} MiB`,
      );
    }
  } finally {
    await computing.close();
    await restoring.close();
    await rm(folder, { recursive: true });
  }
}, 600_000);

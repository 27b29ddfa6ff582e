/** A device that is lost while prefixes are on their way to and from the store. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { PrefixStorage } from "../../../src/cache/prefix_storage.ts";
import { prefixFiles } from "../../../src/node/prefix_files.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { complete } from "../../support/engines/engine.ts";
import { openLosingEngine } from "../../support/engines/losing_engine.ts";
import { until } from "../../support/until.ts";

const PROMPT = Array.from({ length: 210 }, (_, i) => 3 + ((i * 31) % 2000));
const REQUEST = {
  tokens: PROMPT,
  sampling: { maxNewTokens: 6, temperature: 0, ignoreEos: true },
} as const;

test.skipIf(smallestCaseOnly)(
  "what is stored stays, and comes back onto the next device",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "wisp-prefixes-"));
    const files = prefixFiles(folder);
    let onRead = () => {};
    const storage: PrefixStorage = {
      list: () => files.list(),
      write: (...blob) => files.write(...blob),
      delete: (name) => files.delete(name),
      markUsed: (name) => files.markUsed(name),
      read: async (name) => {
        const bytes = await files.read(name);
        onRead();
        return bytes;
      },
    };
    const problems: string[] = [];
    const onProblem = (problem: string) => problems.push(problem);
    const { engine, lose } = await openLosingEngine({
      prefixStore: { storage, maxWait: 60, onProblem },
    });
    const want = (await complete(engine, { ...REQUEST, storePrefix: true })).tokens;
    await until(async () => expect(await readdir(folder)).toHaveLength(3));
    await engine.flushCache();

    let reads = 0;
    onRead = () => {
      reads += 1;
      if (reads === 2) lose();
    };
    expect((await complete(engine, REQUEST)).tokens).toEqual(want);
    expect(reads).toBeGreaterThanOrEqual(2);
    expect(engine.status()).toMatchObject({ recoveries: 1, usedTokens: 0 });
    // The store has not taken the blocks for damaged.
    expect(await readdir(folder)).toHaveLength(3);
    await engine.flushCache();
    const again = await complete(engine, REQUEST);
    expect([again.tokens, again.last.cachedTokens]).toEqual([want, 192]);
    expect(problems).toEqual([]);
    await engine.close();
    await rm(folder, { recursive: true });
  },
);

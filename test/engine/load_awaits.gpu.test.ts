/** Whatever a load waits for may fail: then it ends with the error, and leaves nothing on the device. */
import { afterEach, beforeAll, expect, onTestFailed, test, vi } from "vitest";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { MemoryBlobs } from "../support/engines/memory_blobs.ts";
import {
  type AwaitHook,
  type WatchedSources,
  watchedSources,
} from "../support/faults/watched_awaits.ts";

/** Every so manieth site is tried. */
const DISTANCE = fullTest ? 1 : 24;
/** Waits for a whole model, which frees what it has made where it fails; here only the wait would. */
const OF_THE_MODEL: readonly string[] = [
  "src/engine/load/load.ts: return await load(checkpoint, given, communicator);",
  "src/engine/engine.ts: const loaded = await loadModel(checkpoint, options);",
];

let sources: WatchedSources;

beforeAll(async () => {
  if (!smallestCaseOnly) sources = await watchedSources();
});
afterEach(() => {
  vi.restoreAllMocks();
  sources?.setHook(undefined);
});

/** Buffers that are made from now on, and have not been freed. */
function watchBuffers(): ReadonlySet<GPUBuffer> {
  const there = new Set<GPUBuffer>();
  const create = device.createBuffer.bind(device);
  vi.spyOn(device, "createBuffer").mockImplementation((descriptor) => {
    const buffer = create(descriptor);
    const destroy = buffer.destroy.bind(buffer);
    buffer.destroy = () => {
      there.delete(buffer);
      destroy();
      return undefined;
    };
    there.add(buffer);
    return buffer;
  });
  return there;
}

/** Loads with everything that has a wait of its own, and closes the engine. */
async function load(hook: AwaitHook): Promise<void> {
  const { Engine } = sources.modules["engine/engine"];
  const options = {
    ...{ device, pageSize: 4, contextLength: 128, maxTotalTokens: 512 },
    prefixStore: { storage: new MemoryBlobs() },
    retractionMemory: 2 ** 20,
    speculation: { algorithm: "EAGLE" },
  } as LoadOptions;
  sources.setHook(hook);
  try {
    const engine = await Engine.load(folderSource(EMBEDDED_MODEL), options);
    sources.setHook(undefined);
    await engine.close();
  } finally {
    sources.setHook(undefined);
  }
}

test.skipIf(smallestCaseOnly)("each await of a load may fail", async () => {
  const counts = new Map<string, number>();
  const there = watchBuffers();
  await load((site, awaited) => {
    counts.set(site, (counts.get(site) ?? 0) + 1);
    return awaited;
  });
  expect(there.size).toBe(0);
  expect(counts.size).toBeGreaterThan(40);
  let tried = "";
  onTestFailed(() => console.log(`Tried: ${tried}`));
  const sites = [...counts.keys()].filter((site) => !OF_THE_MODEL.includes(site));
  for (let i = 0; i < sites.length; i += DISTANCE) {
    tried = sites[i]!;
    const error = new RangeError(`the wait fails: ${tried}`);
    let isTried = false;
    const failing: AwaitHook = (site, awaited) => {
      if (site !== tried || isTried) return awaited;
      isTried = true;
      return Promise.resolve(awaited).then(() => {
        throw error;
      });
    };
    const outcome = await load(failing).catch((thrown: unknown) => thrown);
    // A storage that does not answer is one without prefixes.
    const isStorage = tried.startsWith("src/cache/prefix_store.ts");
    if (outcome !== undefined || !isStorage) {
      expect([tried, String(outcome)]).toEqual([tried, expect.stringContaining(error.message)]);
    }
    expect([tried, [...there].map(({ label }) => label)]).toEqual([tried, []]);
  }
});

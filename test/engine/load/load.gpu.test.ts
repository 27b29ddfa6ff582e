import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test, vi } from "vitest";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device } from "../../support/devices/gpu.ts";
import { EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";

/** Bytes of the buffers made on the shared device and not destroyed since the call. */
function countBytes(): () => number {
  const live = new Set<GPUBuffer>();
  const create = device.createBuffer.bind(device);
  vi.spyOn(device, "createBuffer").mockImplementation((descriptor) => {
    const buffer = create(descriptor);
    const destroy = buffer.destroy.bind(buffer);
    live.add(buffer);
    buffer.destroy = () => {
      live.delete(buffer);
      return destroy();
    };
    return buffer;
  });
  return () => [...live].reduce((sum, { size }) => sum + size, 0);
}

/** The embedded model, of which a read from the middle on fails. */
function failingSource(): WeightSource & { closed: number } {
  const source = folderSource(EMBEDDED_MODEL);
  let reads = 0;
  return {
    ...source,
    closed: 0,
    read(file, offset, length) {
      if (offset > 100_000 && ++reads > 3) throw new Error("the disk is gone");
      return source.read(file, offset, length);
    },
    async close() {
      this.closed++;
    },
  };
}

test("a load that fails half way leaves no memory taken and no file open", async () => {
  const bytes = countBytes();
  const source = failingSource();
  await expect(Engine.load(source, { device, maxTotalTokens: 512 })).rejects.toThrow("the disk");
  expect(bytes()).toBe(0);
  expect(source.closed).toBe(1);
  vi.restoreAllMocks();
});

test("Engine.close() frees everything that loading took", async () => {
  const bytes = countBytes();
  const engine = await openEngine({ maxTotalTokens: 512 });
  expect(bytes()).toBeGreaterThan(7e6);
  await engine.close();
  expect(bytes()).toBe(0);
  vi.restoreAllMocks();
});

/** An engine that has answered and is closed; nothing of this function holds on to it. */
async function closedEngine(): Promise<WeakRef<Engine>> {
  const engine = await openEngine({ maxTotalTokens: 512 });
  for await (const _ of engine.generate({ prompt: "a", sampling: { maxNewTokens: 2 } }));
  await engine.close();
  return new WeakRef(engine);
}

test("a device that outlives its engine keeps nothing of it", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  const engine = await closedEngine();
  for (let tries = 0; tries < 20 && engine.deref() !== undefined; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    collect();
  }
  expect(engine.deref()).toBeUndefined();
});

test("a signal that outlives its requests keeps nothing of them", async () => {
  const engine = await openEngine({ maxTotalTokens: 512 });
  const { signal } = new AbortController();
  const added = vi.spyOn(signal, "addEventListener");
  const removed = vi.spyOn(signal, "removeEventListener");
  const sampling = { maxNewTokens: 1 };
  for await (const _ of engine.generate({ prompt: "a", sampling, signal }));
  await expect(engine.generate({ prompt: "", sampling, signal }).next()).resolves.toBeDefined();
  await engine.close();
  expect(added).toHaveBeenCalledTimes(2);
  for (const [name, listener] of added.mock.calls) {
    expect(removed).toHaveBeenCalledWith(name, listener);
  }
});

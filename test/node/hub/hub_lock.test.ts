/** However processes come together at one lock, it has one holder at a time. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { machineName, withLock } from "../../../src/node/hub/hub_lock.ts";
import { LockFolder, type LockState } from "../../../src/node/hub/lock_folder.ts";
import { seeded } from "../../support/seeded.ts";
import { until } from "../../support/until.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wisp-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const signal = new AbortController().signal;

/** Owned by a process that has ended. */
async function ownerThatEnded(): Promise<string> {
  const { pid } = spawnSync(process.execPath, ["--version"]);
  return `${await machineName()} ${pid} x`;
}

/** Waits for a while at random before and after everything that it does with the lock's files. */
class SlowFolder extends LockFolder {
  readonly #random: () => number;

  constructor(path: string, random: () => number) {
    super(path);
    this.#random = random;
  }

  /** Mostly short, at times as long as others take for all they do. */
  async pause(): Promise<void> {
    const turns = Math.floor(60 * this.#random() ** 4);
    for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
  }

  async #slowly<T>(work: () => Promise<T>): Promise<T> {
    await this.pause();
    const done = await work();
    await this.pause();
    return done;
  }

  override newest(): Promise<number> {
    return this.#slowly(() => super.newest());
  }

  override create(state: number): Promise<boolean> {
    return this.#slowly(() => super.create(state));
  }

  override read(state: number): Promise<LockState | undefined> {
    return this.#slowly(() => super.read(state));
  }

  override write(state: number, text: string): Promise<void> {
    return this.#slowly(() => super.write(state, text));
  }

  override remove(state: number): Promise<void> {
    return this.#slowly(() => super.remove(state));
  }
}

describe("four that come at once have the lock one after another, where it", () => {
  test.each([
    ["was never taken", undefined],
    ["is free", "free"],
    ["was left by a process that ended", "ended"],
  ])("%s", async (_, text) => {
    const first = text === "ended" ? await ownerThatEnded() : text;
    const episode = async (seed: number) => {
      const path = join(folder, `${seed}.lock`);
      if (first !== undefined) writeFileSync(`${path}.3`, first);
      const random = seeded(seed);
      let inside = 0;
      const done: number[] = [];
      const contend = async (name: number) => {
        const slow = new SlowFolder(path, random);
        await slow.pause();
        const { signal: own } = new AbortController();
        await withLock(path, { signal: own, folder: slow }, async () => {
          inside++;
          await slow.pause();
          expect(inside).toBe(1);
          done.push(name);
          inside--;
        });
      };
      await Promise.all([0, 1, 2, 3].map(contend));
      expect(done.sort()).toEqual([0, 1, 2, 3]);
      const left = readdirSync(folder).filter((name) => name.startsWith(`${seed}.lock.`));
      expect(left).toHaveLength(1);
      expect(readFileSync(join(folder, left[0]!), "utf8")).toBe("free");
    };
    await Promise.all(Array.from({ length: 50 }, (_, seed) => episode(seed)));
  });
});

/** Finds every state as one that was touched long ago. */
class LateFolder extends LockFolder {
  override async read(state: number): Promise<LockState | undefined> {
    const found = await super.read(state);
    return found && { ...found, touchedAt: 0 };
  }
}

test("one that has slept over it finds out that another has the lock", async () => {
  const path = join(folder, "a.lock");
  let wake = () => {};
  const asleep = new Promise<void>((resolve) => {
    wake = resolve;
  });
  const lost: Error[] = [];
  const onLost = (error: Error) => lost.push(error);
  const first = withLock(path, { signal, staleAfter: 40, onLost }, () => asleep);
  await until(() => expect(readdirSync(folder)).toEqual(["a.lock.1"]));
  await withLock(path, { signal, folder: new LateFolder(path) }, async () => {
    await until(() => expect(lost).toHaveLength(1));
    const problem = "another process has taken it over";
    expect(lost[0]!.message).toBe(`Cannot hold the lock ${path}: ${problem}`);
  });
  wake();
  await first;
  expect(readdirSync(folder)).toEqual(["a.lock.2"]);
  expect(readFileSync(`${path}.2`, "utf8")).toBe("free");
});

test("one that waits leaves when it is told to", async () => {
  const path = join(folder, "a.lock");
  const leaving = new AbortController();
  let end = () => {};
  const held = new Promise<void>((resolve) => {
    end = resolve;
  });
  const first = withLock(path, { signal }, () => held);
  await until(() => expect(readdirSync(folder)).toEqual(["a.lock.1"]));
  const onWait = () => leaving.abort(new Error("enough"));
  await expect(
    withLock(path, { signal: leaving.signal, onWait }, async () => {}),
  ).rejects.toThrow();
  end();
  await first;
});

test("what the work throws frees the lock", async () => {
  const path = join(folder, "a.lock");
  const fail = withLock(path, { signal }, async () => {
    throw new Error("no");
  });
  await expect(fail).rejects.toThrow("no");
  expect(await withLock(path, { signal }, async () => "done")).toBe("done");
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { settledPolls, throttlePolling, tunePolling } from "../../../src/node/device/polling.ts";

/** Stands in for Dawn's classes. */
class GPUBuffer {
  mapAsync(mode: number): string {
    return `mapped ${mode}`;
  }
}
class GPUQueue {
  onSubmittedWorkDone(): void {}
}
class GPUDevice {
  popErrorScope(): void {}
}

/** A native function with a `prototype`, as Dawn's callbacks are, that does nothing. */
const nativePoll = Object as unknown as () => void;
const LONGER_THAN_A_SPIN_MS = 10;

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** What `setImmediate` made of a poll. */
function scheduled(): string {
  return (setImmediate(nativePoll) as object).constructor.name;
}

beforeAll(() => {
  throttlePolling({ GPUBuffer, GPUQueue, GPUDevice });
  tunePolling({ isCpu: false });
});

afterAll(() => {
  tunePolling({ isCpu: true });
});

describe("throttlePolling", () => {
  test("lets a poll run at once when a wait has just begun, and pauses it later", async () => {
    new GPUBuffer().mapAsync(1);
    expect(scheduled()).toBe("Immediate");
    await later(LONGER_THAN_A_SPIN_MS);
    expect(scheduled()).toBe("Timeout");
    new GPUQueue().onSubmittedWorkDone();
    expect(scheduled()).toBe("Immediate");
  });

  test("a new wait ends the pause of an earlier one", async () => {
    await later(LONGER_THAN_A_SPIN_MS);
    const paused = setImmediate(nativePoll) as unknown as { readonly _destroyed: boolean };
    expect(paused._destroyed).toBe(false);
    new GPUDevice().popErrorScope();
    expect(paused._destroyed).toBe(true);
  });

  test("never pauses other callbacks, native ones included", async () => {
    await later(LONGER_THAN_A_SPIN_MS);
    const plain = () => {};
    for (const callback of [plain, plain.bind(null), function named() {}]) {
      expect((setImmediate(callback) as object).constructor.name).toBe("Immediate");
    }
    await new Promise((resolve) => {
      expect((setImmediate(resolve) as object).constructor.name).toBe("Immediate");
    });
  });

  test("settledPolls resolves once nothing polls any more, however late that is", async () => {
    let left = 30;
    // As its text says, a native one.
    function poll(): void {
      if ("[native code]".length > 0) left -= 1;
      if (left > 0) setImmediate(poll);
    }
    setImmediate(poll);
    await settledPolls();
    expect(left).toBe(0);
  });

  test("keeps arguments and results, and installs itself once", () => {
    const installed = globalThis.setImmediate;
    throttlePolling({ GPUBuffer, GPUQueue, GPUDevice });
    expect(globalThis.setImmediate).toBe(installed);
    expect(new GPUBuffer().mapAsync(1)).toBe("mapped 1");
  });
});

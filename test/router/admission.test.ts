import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Admission, type AdmissionOptions } from "../../src/router/admission.ts";

const admissionOf = (options: Partial<AdmissionOptions>) =>
  new Admission({ maxConcurrentRequests: 2, queueSize: 2, queueTimeout: 1000, ...options });

/** Asks to enter, and says when it may. */
function asking(admission: Admission, signal = new AbortController().signal) {
  const state = { leave: undefined as (() => void) | undefined, error: undefined as unknown };
  admission.enter(signal).then(
    (leave) => {
      state.leave = leave;
    },
    (error) => {
      state.error = error;
    },
  );
  return state;
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const settled = () => vi.advanceTimersByTimeAsync(0);

describe("admission", () => {
  test("lets as many in at once as may be, others in their order as those end", async () => {
    const admission = admissionOf({});
    const all = [1, 2, 3, 4].map(() => asking(admission));
    await settled();
    expect(all.map(({ leave }) => leave !== undefined)).toEqual([true, true, false, false]);
    all[1]!.leave!();
    // A second call is none.
    all[1]!.leave!();
    await settled();
    expect(all.map(({ leave }) => leave !== undefined)).toEqual([true, true, true, false]);
    expect([admission.running, admission.waiting]).toEqual([2, 1]);
  });

  test("refuses one more than may wait with 429, at once where none may", async () => {
    const admission = admissionOf({});
    const all = [1, 2, 3, 4, 5].map(() => asking(admission));
    await settled();
    expect(all[4]!.error).toMatchObject({ code: "rate_limited" });
    const none = admissionOf({ queueSize: 0, maxConcurrentRequests: 1 });
    const [, refused] = [asking(none), asking(none)];
    await settled();
    expect(refused!.error).toMatchObject({ code: "rate_limited" });
  });

  test("refuses one that has waited too long with 408, and the others go on", async () => {
    const admission = admissionOf({ maxConcurrentRequests: 1 });
    const running = asking(admission);
    const first = asking(admission);
    await vi.advanceTimersByTimeAsync(600);
    const second = asking(admission);
    await vi.advanceTimersByTimeAsync(400);
    expect(first.error).toMatchObject({ code: "timed_out" });
    running.leave!();
    await settled();
    expect(second.leave).toBeDefined();
  });

  test("a client that leaves gives its place in the queue up", async () => {
    const admission = admissionOf({ maxConcurrentRequests: 1 });
    const client = new AbortController();
    const running = asking(admission);
    const [left, next] = [asking(admission, client.signal), asking(admission)];
    client.abort();
    await settled();
    expect(left.error).toMatchObject({ name: "AbortError" });
    running.leave!();
    await settled();
    expect(next.leave).toBeDefined();
    expect(admission.waiting).toBe(0);
  });

  test("a rate lets so many begin in a second, whether others have ended or not", async () => {
    const admission = admissionOf({
      maxConcurrentRequests: 100,
      queueSize: 100,
      queueTimeout: 60_000,
      requestsPerSecond: 4,
    });
    const all = Array.from({ length: 12 }, () => asking(admission));
    const begun = () => all.filter(({ leave }) => leave !== undefined).length;
    await settled();
    expect(begun()).toBe(4);
    await vi.advanceTimersByTimeAsync(1010);
    expect(begun()).toBe(8);
    await vi.advanceTimersByTimeAsync(1010);
    expect(begun()).toBe(12);
  });
});

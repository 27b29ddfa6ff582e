import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { finished, pollBySubmits } from "../../src/gpu/submit_poll.ts";

/** A device that only counts what is submitted. */
function countingDevice() {
  const submit = vi.fn();
  const createCommandEncoder = () => ({ finish: () => ({}) });
  return { submit, device: { createCommandEncoder, queue: { submit } } as unknown as GPUDevice };
}

test("submits nothing over and over while a caller waits, and then stops", async () => {
  const { device, submit } = countingDevice();
  pollBySubmits(device);
  const [first, second] = [sleep(30, "first"), sleep(60, "second")];
  expect(await finished(device, first)).toBe("first");
  expect(submit.mock.calls.length).toBeGreaterThan(2);
  const seen = submit.mock.calls.length;
  expect(await finished(device, second)).toBe("second");
  expect(submit.mock.calls.length).toBeGreaterThan(seen);
  const atEnd = submit.mock.calls.length;
  await sleep(20);
  expect(submit.mock.calls.length).toBe(atEnd);
});

test("stops when work fails, and by itself after a second", async () => {
  vi.useFakeTimers();
  try {
    const { device, submit } = countingDevice();
    pollBySubmits(device);
    const lost = finished(device, Promise.reject(new Error("lost")));
    await expect(lost).rejects.toThrow("lost");
    await vi.advanceTimersByTimeAsync(20);
    expect(submit).not.toHaveBeenCalled();
    let finish!: () => void;
    const long = finished(device, new Promise<void>((resolve) => (finish = resolve)));
    await vi.advanceTimersByTimeAsync(5000);
    expect(submit.mock.calls.length).toBeGreaterThan(900);
    expect(submit.mock.calls.length).toBeLessThan(1100);
    finish();
    await long;
    const before = submit.mock.calls.length;
    const next = finished(device, new Promise((resolve) => setTimeout(resolve, 10)));
    await vi.advanceTimersByTimeAsync(20);
    await next;
    expect(submit.mock.calls.length).toBeGreaterThan(before);
  } finally {
    vi.useRealTimers();
  }
});

test("leaves other devices alone", async () => {
  const { device, submit } = countingDevice();
  await finished(device, sleep(10));
  expect(submit).not.toHaveBeenCalled();
});

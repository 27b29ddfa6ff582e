import { expect, test } from "vitest";
import { CircuitBreaker } from "../../src/router/worker/breaker.ts";

function breakerAt(options: { failureThreshold?: number } = {}) {
  const clock = { now: 0 };
  const changes: string[] = [];
  const breaker = new CircuitBreaker(
    { failureThreshold: 3, successThreshold: 2, openTime: 1000, window: 5000, ...options },
    (from, to) => changes.push(`${from} -> ${to}`),
    () => clock.now,
  );
  const record = (...outcomes: Parameters<CircuitBreaker["record"]>[0][]) => {
    for (const outcome of outcomes) breaker.record(outcome);
  };
  return { breaker, clock, changes, record };
}

test("failures in a row open it, and successes in between do not let them add up", () => {
  const { breaker, record } = breakerAt();
  record("failure", "failure", "success", "failure", "failure");
  expect(breaker.state).toBe("closed");
  record("failure");
  expect(breaker.state).toBe("open");
});

test("a busy worker never opens it, nor does it end a row of failures", () => {
  const { breaker, record } = breakerAt();
  for (let i = 0; i < 100; i++) record("busy");
  expect(breaker.state).toBe("closed");
  record("failure", "failure", "busy", "failure");
  expect(breaker.state).toBe("open");
});

test("it is half open after its time, closes after successes and opens after one failure", () => {
  const { breaker, clock, changes, record } = breakerAt();
  record("failure", "failure", "failure");
  clock.now = 999;
  expect(breaker.state).toBe("open");
  clock.now = 1000;
  expect(breaker.state).toBe("half-open");
  record("success", "failure");
  expect(breaker.state).toBe("open");
  clock.now = 2000;
  record("success");
  expect(breaker.state).toBe("half-open");
  record("success");
  expect(breaker.state).toBe("closed");
  const cycle = ["closed -> open", "open -> half-open", "half-open -> open"];
  expect(changes).toEqual([...cycle, "open -> half-open", "half-open -> closed"]);
});

test("failures that lie further apart than the window do not add up", () => {
  const { breaker, clock, record } = breakerAt();
  record("failure", "failure");
  clock.now = 5001;
  record("failure");
  expect(breaker.state).toBe("closed");
});

test("with an infinite threshold it never opens", () => {
  const { breaker, record } = breakerAt({ failureThreshold: Number.POSITIVE_INFINITY });
  for (let i = 0; i < 1000; i++) record("failure");
  expect(breaker.state).toBe("closed");
});

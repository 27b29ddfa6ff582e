import { describe, expect, test } from "vitest";
import { Logger, type LoggerOptions } from "../../../src/node/observe/logger.ts";

function logTo(options: Partial<LoggerOptions> = {}) {
  const out: string[] = [];
  const stderr = { write: (text: string) => out.push(text) };
  return { log: new Logger({ stderr, ...options }), out };
}

describe("Logger", () => {
  test("names the rank whose lines they are", () => {
    const lines: string[] = [];
    const stderr = { write: (text: string) => lines.push(text), isTTY: true };
    const log = new Logger({ stderr });
    expect(log.ofRank(3).terminal).toBeUndefined();
    log.ofRank(3).line("info", "Memory: all");
    log.ofRank(0).event("error", "gone");
    new Logger({ stderr, format: "json" }).ofRank(1).event("info", "here", { event: "here" });
    expect(lines[0]).toBe("TP3 Memory: all\n");
    expect(lines[1]).toMatch(/^\[.*\] TP0 gone\n$/);
    expect(JSON.parse(lines[2]!)).toMatchObject({ level: "info", tp_rank: 1, event: "here" });
  });

  test("names the replica whose lines they are, before the rank", () => {
    const { log, out } = logTo();
    log.ofReplica(2).line("info", "Memory: all");
    log.ofReplica(1).ofRank(3).event("error", "gone");
    logTo({ stderr: { write: (text: string) => out.push(text) }, format: "json" })
      .log.ofReplica(1)
      .event("info", "here", { event: "here" });
    expect(out[0]).toBe("DP2 Memory: all\n");
    expect(out[1]).toMatch(/^\[.*\] DP1 TP3 gone\n$/);
    expect(JSON.parse(out[2]!)).toMatchObject({ level: "info", dp_rank: 1, event: "here" });
    const stderr = { write: () => {}, isTTY: true };
    expect(new Logger({ stderr }).ofReplica(0).terminal).toBeUndefined();
  });

  test("writes events with the time, lines of the start as they are", () => {
    const { log, out } = logTo();
    log.line("info", "Model: m");
    log.event("info", "Something happened");
    expect(out[0]).toBe("Model: m\n");
    expect(out[1]).toMatch(/^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] Something happened\n$/);
  });

  test("writes one JSON object a line, with the fields in place of the text", () => {
    const { log, out } = logTo({ format: "json" });
    log.line("warning", "Warning: slow");
    log.event("info", "Decode batch. #running-req: 2", { event: "decode_batch", running: 2 });
    expect(out.map((line) => JSON.parse(line))).toEqual([
      { time: expect.any(String), level: "warning", message: "Warning: slow" },
      { time: expect.any(String), level: "info", event: "decode_batch", running: 2 },
    ]);
  });

  test.each([
    ["debug", ["debug", "info", "warning", "error"]],
    ["info", ["info", "warning", "error"]],
    ["warning", ["warning", "error"]],
    ["error", ["error"]],
  ] as const)("of level %s writes %j", (level, written) => {
    const { log, out } = logTo({ level });
    for (const one of ["debug", "info", "warning", "error"] as const) log.line(one, one);
    expect(out).toEqual(written.map((one) => `${one}\n`));
  });

  test("writes errors with where they come from", () => {
    const { log, out } = logTo();
    log.error(new Error("broken"));
    expect(out[0]).toMatch(/\] Error: broken\n {4}at .*logger\.test\.ts/);
  });

  test("names the request whose answer an error spoils, in both formats", () => {
    const text = logTo();
    text.log.error(new Error("broken"), "req-1");
    expect(text.out[0]).toMatch(/\] Request req-1: Error: broken\n {4}at /);
    const json = logTo({ format: "json" });
    json.log.error(new Error("broken"), "req-1");
    expect(JSON.parse(json.out[0]!)).toMatchObject({
      level: "error",
      message: expect.stringMatching(/^Error: broken\n/),
      x_request_id: "req-1",
    });
  });
});

import { describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import { Logger, type LoggerOptions } from "../../../src/node/observe/logger.ts";
import { type RequestLogLevel, requestLog } from "../../../src/node/observe/request_log.ts";
import { observe } from "../../../src/server/observe/observe.ts";
import {
  ScriptedEngine,
  type ScriptedEngineOptions,
} from "../../support/engines/scripted_engine.ts";

interface Wanted extends ScriptedEngineOptions {
  readonly detail?: RequestLogLevel;
  readonly log?: Partial<LoggerOptions>;
}

/** An engine whose requests are logged, and the lines. */
function logged({ detail = 0, log = {}, ...scripted }: Wanted = {}) {
  const lines: string[] = [];
  const stderr = { write: (text: string) => lines.push(text.trimEnd()) };
  const logger = new Logger({ stderr, ...log });
  const observer = requestLog(logger, { level: "info", detail });
  return { engine: observe(new ScriptedEngine(scripted), [observer]), lines };
}

const REQUEST = { prompt: "ab", requestId: "r-1", sampling: { temperature: 0 } };

describe("requestLog()", () => {
  test("writes one line with id, tokens, times and finish, and nothing that was said", async () => {
    const { engine, lines } = logged();
    for await (const _ of engine.generate(REQUEST));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      /\] Finish request\. rid: r-1, prompt_tokens: 2, cached_tokens: 0, completion_tokens: 3, ttft: [\d.]+, tokens_per_second: [\d.]+, e2e_latency: [\d.]+, finish: stop$/,
    );
  });

  test("writes the same as JSON", async () => {
    const { engine, lines } = logged({ log: { format: "json" } });
    for await (const _ of engine.generate(REQUEST));
    expect(JSON.parse(lines[0]!)).toEqual({
      time: expect.any(String),
      level: "info",
      event: "request_finished",
      rid: "r-1",
      prompt_tokens: 2,
      cached_tokens: 0,
      completion_tokens: 3,
      ttft: expect.any(Number),
      tokens_per_second: expect.any(Number),
      e2e_latency: expect.any(Number),
      finish: "stop",
    });
  });

  test("writes what was ignored of a schema", async () => {
    const compilation = { isCached: false, seconds: 0, warnings: ["Ignored this"] };
    const { engine, lines } = logged({ script: () => ({ pieces: ["1"], compilation }) });
    for await (const _ of engine.generate(REQUEST));
    expect(lines[0]).toContain('warnings: ["Ignored this"]');
  });

  test("reads no more of a conversation than it writes", async () => {
    let read = 0;
    const message = {
      role: "user",
      get content() {
        read += 1;
        return "0123456789";
      },
    };
    const messages = Array.from({ length: 1000 }, () => message);
    const { engine, lines } = logged({ detail: 2 });
    for await (const _ of engine.generate({ messages }));
    const whole = JSON.stringify(messages.map(({ role }) => ({ role, content: "0123456789" })));
    expect(lines[0]).toContain(JSON.stringify(whole.slice(0, 2048)));
    expect(read).toBeLessThan(100);
  });

  test("says Abort when the client leaves", async () => {
    const { engine, lines } = logged();
    for await (const _ of engine.generate(REQUEST)) break;
    expect(lines[0]).toContain("Abort request. rid: r-1");
    expect(lines[0]).toContain('reason: "the client left"');
  });

  test("names the code of an error, not what it says", async () => {
    const error = new InvalidRequestError("the prompt is secret");
    const { engine, lines } = logged({ script: () => ({ failure: { at: 0, error } }) });
    const reading = (async () => {
      for await (const _ of engine.generate(REQUEST));
    })();
    await expect(reading).rejects.toThrow("secret");
    expect(lines[0]).toContain("Fail request. rid: r-1");
    expect(lines[0]).toContain("error: invalid_request");
    expect(lines[0]).not.toContain("secret");
  });

  test.each([
    [1, { sampling: { temperature: 0 } }],
    [2, { sampling: { temperature: 0 }, prompt: "a".repeat(2048), completion: "b".repeat(2048) }],
    [3, { sampling: { temperature: 0 }, prompt: "a".repeat(3000), completion: "b".repeat(3000) }],
  ] as const)("level %i adds what it says", async (detail, added) => {
    const pieces = new Array<string>(3).fill("b".repeat(1000));
    const { engine, lines } = logged({
      detail,
      script: () => ({ pieces }),
      log: { format: "json" },
    });
    for await (const _ of engine.generate({ ...REQUEST, prompt: "a".repeat(3000) }));
    const { sampling, prompt, completion } = JSON.parse(lines[0]!);
    expect({ sampling, prompt, completion }).toEqual(added);
  });
});

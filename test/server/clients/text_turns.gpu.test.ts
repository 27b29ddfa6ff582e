/** A client that floods a server with texts, at a socket: another one's text has room and its turn. */
import http from "node:http";
import { expect, test } from "vitest";
import { RemoteTextService, TEXT_LIMITS } from "../../../src/engine/text/remote_text_service.ts";
import { serveText } from "../../../src/engine/text/serve_text.ts";
import { readTextFiles } from "../../../src/engine/text/text_files.ts";
import { serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

const PATHS = {
  "/tokenize": { prompt: "a ".repeat(10_000) },
  "/v1/chat/completions": {
    messages: [{ role: "user", content: "b".repeat(2000) }],
    max_tokens: 1,
  },
} as const;

/** The status of the answer to a request from an address. */
function ask(port: string, localAddress: string, path: keyof typeof PATHS): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const options = { port, host: "127.0.0.1", localAddress, method: "POST", path, headers };
    const request = http.request({ ...options, agent: false }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode!));
    });
    request.on("error", reject);
    request.end(JSON.stringify(PATHS[path]));
  });
}

// Other systems have but one address of their own without being told.
test.skipIf(process.platform !== "linux")("a flood of texts leaves room for others", async () => {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  /** Requests that have come to the app. */
  let asked = 0;
  const engine = await openEngine({
    textService: async ({ source, options }) =>
      RemoteTextService.open({
        files: await readTextFiles(source),
        options,
        limits: { ...TEXT_LIMITS, longText: 1, long: { seconds: 600, waiting: 190_000 } },
        start: ({ onAnswer }) => {
          const take = serveText((answer) => onAnswer(answer));
          return {
            send: async (question) => {
              if (question.type !== "load") await released;
              await take(question);
            },
            terminate: () => {},
          };
        },
      }),
  });
  const app = createApp(engine);
  const counted = {
    fetch(request: Request) {
      asked += 1;
      return app.fetch(request);
    },
  };
  const server = await serve(counted, { host: "127.0.0.1", port: 0 });
  const { port } = new URL(server.url);
  try {
    const flood = Array.from({ length: 9 }, () => ask(port, "127.0.0.2", "/tokenize"));
    const refused: number[] = [];
    for (const one of flood) void one.then((status) => status !== 200 && refused.push(status));
    // There is room for nine; half of it, and what is read at once, is this client's.
    await until(() => expect(refused.length).toBeGreaterThanOrEqual(3));
    const others = [
      ask(port, "127.0.0.1", "/tokenize"),
      ask(port, "127.0.0.1", "/v1/chat/completions"),
      ask(port, "127.0.0.3", "/tokenize"),
    ];
    // All have come: the texts of those that were not refused wait.
    await until(() => expect(asked).toBe(flood.length + others.length));
    release();
    expect(await Promise.all(others)).toEqual([200, 200, 200]);
    await Promise.all(flood);
    expect(new Set(refused)).toEqual(new Set([503]));
    expect([3, 4]).toContain(refused.length);
  } finally {
    release();
    await server.close(0);
    await engine.close();
  }
});

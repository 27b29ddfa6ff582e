/** Which pages of a browser get in, by their origin, by the name they ask for, by what they ask. */
import { describe, expect, test } from "vitest";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage } from "../../support/server/http_client.ts";

type Headers = Readonly<Record<string, string>>;

const BROWSER = { "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0" };
const NODE = { "user-agent": "node", "sec-fetch-mode": "cors" };

function ask(options: AppOptions, path: string, headers: Headers, method = "GET") {
  const host = headers.host ?? "localhost:30000";
  const init = { method, headers: { host, ...headers } };
  return createApp(new ScriptedEngine(), options).request(`http://${host}${path}`, init);
}

const status = async (...asked: Parameters<typeof ask>) => (await ask(...asked)).status;

test.each<[AppOptions, string]>([
  [
    { allowedOrigins: ["https://a.test", "https://a.test/"] },
    'allowedOrigins must be origins such as "https://example.org", or "*", got "https://a.test/"',
  ],
  [{ allowedOrigins: ["a.test"] }, "allowedOrigins must be origins such as"],
  [
    { allowedHosts: ["a.test", "http://b.test"] },
    'allowedHosts must be names of hosts such as "example.org", without scheme and port, or "*", got "http://b.test"',
  ],
  [{ allowedHosts: ["b.test:80"], apiKey: "k" }, "allowedHosts must be names of hosts"],
])("%j makes no app", (options, message) => {
  expect(() => createApp(new ScriptedEngine(), options)).toThrow(message);
});

describe("where no origin is allowed by name", () => {
  test.each<[string, Headers]>([
    ["a program", {}],
    ["Node's fetch", NODE],
    ["a person who types the address", { ...BROWSER, "sec-fetch-site": "none" }],
    ["a page of the server's own", { ...BROWSER, "sec-fetch-site": "same-origin" }],
    [
      "a POST of such a page",
      { origin: "http://localhost:30000", "sec-fetch-site": "same-origin" },
    ],
    ["an older browser's", { ...BROWSER, origin: "http://localhost:30000" }],
    ["one that came through a proxy with TLS", { host: "localhost", origin: "https://localhost" }],
    ["one of the scheme's own port", { host: "localhost:80", origin: "http://localhost" }],
  ])("%s gets in", async (_, headers) => {
    const response = await ask({}, "/v1/models", headers);
    expect(response.status).toBe(200);
    expect(response.headers.get("access-control-allow-origin")).toBeNull();
  });

  test.each<[string, Headers, string]>([
    ["a page of elsewhere", { origin: "https://evil.test" }, "pages of https://evil.test may not"],
    ["one of another port", { origin: "http://localhost:5173" }, "http://localhost:5173"],
    [
      "one of another port, as its browser says",
      { origin: "http://localhost:30000", "sec-fetch-site": "same-site" },
      "pages of http://localhost:30000 may not",
    ],
    ["a page without an origin", { origin: "null" }, "pages of null may not"],
    ["a file", { origin: "file://" }, "pages of file:// may not"],
    ["what is no origin", { origin: "localhost:30000" }, "pages of localhost:30000 may not"],
    ["an image in a page", { "sec-fetch-site": "cross-site" }, "pages of other origins may not"],
    ["a link in a page", { "sec-fetch-site": "same-site" }, "pages of other origins may not"],
  ])("%s does not", async (_, headers, problem) => {
    for (const path of ["/v1/models", "/health", "/flush_cache"]) {
      for (const method of ["GET", "POST"]) {
        const response = await ask({}, path, headers, method);
        expect(response.status).toBe(403);
        expect(response.headers.get("access-control-allow-origin")).toBeNull();
      }
    }
    expect(await errorMessage(await ask({}, "/v1/models", headers))).toContain(problem);
  });

  test("a refusal repeats no more than the beginning of an origin", async () => {
    const response = await ask({}, "/v1/models", { origin: `https://${"x".repeat(5000)}.test` });
    expect((await errorMessage(response)).length).toBeLessThan(250);
  });
});

test("where every origin is allowed, all pages get in and can read the answer", async () => {
  for (const origin of ["https://evil.test", "null"]) {
    const headers = { ...BROWSER, origin, "sec-fetch-site": "cross-site" };
    const response = await ask({ allowedOrigins: ["*"] }, "/v1/models", headers);
    expect(response.status).toBe(200);
    expect(response.headers.get("access-control-allow-origin")).toBe(origin);
  }
});

test("a list lets in what it names, and of pages without an origin only the server's own", async () => {
  const options = { allowedOrigins: ["https://a.test"] };
  expect(await status(options, "/v1/models", { origin: "https://a.test" })).toBe(200);
  expect(await status(options, "/v1/models", { origin: "https://b.test" })).toBe(403);
  expect(await status(options, "/v1/models", { "sec-fetch-site": "cross-site" })).toBe(403);
  expect(await status(options, "/v1/models", { "sec-fetch-site": "same-origin" })).toBe(200);
  expect(await status(options, "/v1/models", {})).toBe(200);
});

describe("a page whose name was made to lead to this machine", () => {
  // What a browser sends from there: to a plain HTTP name that is not local, nothing marks it.
  const rebound = { ...BROWSER, host: "evil.test:30000" };
  const local = { listensOn: "127.0.0.1" };

  test.each<[string, AppOptions, Headers]>([
    ["of a local server", local, rebound],
    ["of a local server, without marks of a browser", local, { host: "evil.test" }],
    ["of one at ::1", { listensOn: "::1" }, { host: "evil.test" }],
    ["of one at localhost", { listensOn: "localhost" }, { host: "evil.test" }],
    ["of one at 127.8.8.8", { listensOn: "127.8.8.8" }, { host: "evil.test" }],
    ["of every network", { listensOn: "0.0.0.0" }, rebound],
    ["of an app that does not know where", {}, rebound],
    ["of names that are not its own", { ...local, allowedHosts: ["a.test"] }, rebound],
    ["with the admin's key alone", { ...local, adminApiKey: "k" }, rebound],
    ["under a name like a local one", local, { host: "localhost.evil.test" }],
    ["under a name like an address", local, { host: "127.0.0.1.evil.test" }],
    ["with two hosts", local, { host: "localhost, evil.test" }],
    ["with a host that is none", local, { host: "a@localhost" }],
  ])("gets nothing %s", async (_, options, headers) => {
    const app = createApp(new ScriptedEngine(), options);
    for (const path of ["/get_server_info", "/v1/models", "/health"]) {
      const response = await app.request(path, { headers });
      expect(response.status).toBe(403);
    }
    const response = await app.request("/generate", { headers });
    expect(await errorMessage(response)).toMatch(
      /the server does not go by the name .+--allowed-h/,
    );
  });

  test("gets nothing either where its browser says that the page is the server's own", async () => {
    const headers = {
      ...rebound,
      origin: "http://evil.test:30000",
      "sec-fetch-site": "same-origin",
    };
    for (const options of [local, { listensOn: "0.0.0.0" }, {}]) {
      expect(await status(options, "/v1/models", headers)).toBe(403);
      expect(await status(options, "/flush_cache", headers, "POST")).toBe(403);
    }
  });

  test("finds a key asked for, and so no name", async () => {
    expect(await status({ ...local, apiKey: "k" }, "/v1/models", rebound)).toBe(401);
  });
});

describe("a name of the server", () => {
  test.each<[AppOptions, string]>([
    [{ listensOn: "127.0.0.1" }, "127.0.0.1:30000"],
    [{ listensOn: "127.0.0.1" }, "localhost:30000"],
    [{ listensOn: "127.0.0.1" }, "LocalHost."],
    [{ listensOn: "127.0.0.1" }, "model.localhost:1"],
    [{ listensOn: "127.0.0.1" }, "[::1]:30000"],
    // No name server has a say in an address.
    [{ listensOn: "127.0.0.1" }, "192.168.1.7:30000"],
    [{ listensOn: "127.0.0.1", allowedHosts: ["a.test"] }, "a.test"],
    [{ listensOn: "127.0.0.1", allowedHosts: ["A.test"] }, "a.TEST.:443"],
    [{ listensOn: "127.0.0.1", allowedHosts: ["*"] }, "anything.test"],
    [{ listensOn: "mine.test" }, "mine.test:30000"],
    [{ listensOn: "0.0.0.0" }, "10.0.0.1:30000"],
    [{ allowedHosts: ["a.test"] }, "a.test"],
  ])("with %j is %s", async (options, host) => {
    expect(await status(options, "/v1/models", { ...BROWSER, host })).toBe(200);
  });

  test.each([{ listensOn: "0.0.0.0" }, {}])(
    "is any name for programs, where others reach the server (%j)",
    async (options) => {
      expect(await status(options, "/v1/models", { ...NODE, host: "a.test" })).toBe(200);
      expect(await status(options, "/v1/models", { host: "a.test" })).toBe(200);
    },
  );
});

describe.each([
  "/flush_cache",
  "/start_profile",
  "/stop_profile",
  "/dump_expert_distribution_record",
])("%s", (path) => {
  // No page can leave these out.
  const pages: readonly Headers[] = [
    BROWSER,
    { "sec-fetch-site": "none" },
    { "sec-fetch-site": "same-origin" },
    { origin: "http://localhost:30000" },
  ];
  const written = `${path}?stored=true`.replace("l", "%6c");

  test.each(["GET", "HEAD"])("%s from a browser is refused", async (method) => {
    for (const headers of pages) {
      for (const spelled of [path, written]) {
        const engine = new ScriptedEngine();
        const host = "localhost:30000";
        const init = { method, headers: { host, ...headers } };
        const response = await createApp(engine).request(spelled, init);
        expect(response.status).toBe(405);
        expect(response.headers.get("allow")).toBe("POST");
        expect(engine.flushes).toEqual([]);
      }
    }
    const response = await createApp(new ScriptedEngine()).request(path, { headers: BROWSER });
    expect(await errorMessage(response)).toBe(
      `Cannot GET ${path}: it changes the server, which browsers may do by POST only`,
    );
  });

  test("GET of a program, POST of a page and GET with a key go through", async () => {
    // Without an option there are no profiles and no records.
    const through = path === "/flush_cache" ? 200 : 400;
    expect(await status({}, path, {})).toBe(through);
    expect(await status({}, path, NODE)).toBe(through);
    for (const headers of pages) expect(await status({}, path, headers, "POST")).toBe(through);
    for (const options of [{ apiKey: "k" }, { adminApiKey: "k" }]) {
      const headers = { ...BROWSER, authorization: "Bearer k" };
      expect(await status(options, path, headers)).toBe(through);
      expect(await status(options, path, BROWSER)).toBe(401);
    }
  });
});

/** The page at `/`: who gets its files, with which headers, and that nothing else opens with them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readWebPage, webPageAddress } from "../../../src/node/serve/web_page_files.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";

async function pageOf(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), "wisp-page-"));
  mkdirSync(join(folder, "page"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const page = await readWebPage(folder);
  rmSync(folder, { recursive: true });
  return page!;
}

async function keyedApp() {
  const webPage = await pageOf({ "index.html": "<p>chat</p>", "page/main.js": "1;" });
  return createApp(new ScriptedEngine(), { webPage, apiKey: "key", lifecycle: () => "draining" });
}

test("its files need no key, also while the server stops", async () => {
  const app = await keyedApp();
  const page = await app.request("/");
  expect([page.status, await page.text()]).toEqual([200, "<p>chat</p>"]);
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(page.headers.get("cache-control")).toBe("no-cache");
  const script = await app.request("/page/main.js");
  expect([script.status, await script.text()]).toEqual([200, "1;"]);
  expect(script.headers.get("cache-control")).toContain("immutable");
  const head = await app.request("/", { method: "HEAD" });
  expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([
    200,
    "11",
    "",
  ]);
});

test("nothing else opens without the key", async () => {
  const app = await keyedApp();
  for (const path of [
    "/v1/models",
    "/page",
    "/page/",
    "/page/other.js",
    "/page/../v1/models",
    "//",
  ]) {
    expect([path, (await app.request(path)).status]).toEqual([path, 401]);
  }
});

test("its policy lets it ask its own server and nothing else", async () => {
  const policy = (await (await keyedApp()).request("/")).headers.get("content-security-policy")!;
  expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
  expect(policy).toContain("connect-src 'self'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
});

test("pages of strangers and wrong methods are refused as everywhere", async () => {
  const app = await keyedApp();
  const headers = { origin: "https://evil.test", "sec-fetch-site": "cross-site" };
  expect((await app.request("/", { headers })).status).toBe(403);
  const posted = await app.request("/", { method: "POST" });
  expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET"]);
  const open = createApp(new ScriptedEngine(), { webPage: await pageOf({ "index.html": "" }) });
  const strange = { "user-agent": "Mozilla/5.0" };
  expect((await open.request("http://rebound.test/", { headers: strange })).status).toBe(403);
});

test("a server without a page has none", async () => {
  expect((await createApp(new ScriptedEngine()).request("/")).status).toBe(404);
  expect(await readWebPage("/nowhere")).toBeUndefined();
});

test("a file whose type is not known is refused at the start", async () => {
  await expect(pageOf({ "index.html": "", "page/a.wasm": "" })).rejects.toThrow("a.wasm");
});

test("the address to open leads a person to a server that listens everywhere", () => {
  expect(webPageAddress("http://0.0.0.0:30000")).toBe("http://localhost:30000/");
  expect(webPageAddress("http://[::]:8000")).toBe("http://localhost:8000/");
  expect(webPageAddress("http://127.0.0.1:1")).toBe("http://127.0.0.1:1/");
});

import { describe, expect, test } from "vitest";
import {
  ACCESS_OPTIONS,
  accessOf,
  describeAccess,
  describeOptions,
  requireUsableAccess,
} from "../../../src/node/options/access_options.ts";
import { OptionError, parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import { sendSignal, startCommand } from "../../support/package/run_command.ts";

const parse = (...args: string[]) => parseOptions(ACCESS_OPTIONS, args).values;

test("the options are those of the app", () => {
  const keys = ["--api-key", "a", "--admin-api-key", "b"];
  const sizes = ["--max-request-size", "2K", "--request-memory", "1M"];
  const origins = ["--allowed-origins", "https://a.test", "http://b.test"];
  const hosts = ["--allowed-hosts", "a.test", "*"];
  expect(accessOf(parse(...keys, ...sizes, ...origins, ...hosts), "0.0.0.0")).toEqual({
    apiKey: "a",
    adminApiKey: "b",
    maxBodyBytes: 2048,
    requestMemory: 2 ** 20,
    allowedOrigins: ["https://a.test", "http://b.test"],
    allowedHosts: ["a.test", "*"],
    listensOn: "0.0.0.0",
  });
  for (const name of ["maxBodyBytes", "requestMemory"]) {
    expect(accessOf(parse(), "::1")).not.toHaveProperty(name);
  }
});

describe("before the start", () => {
  test.each([
    ["--api-key", " "],
    ["--admin-api-key", "two words"],
  ])("%s %j is refused", (flag, key) => {
    const check = () => requireUsableAccess(parse(flag, key));
    expect(check).toThrow(OptionError);
    expect(check).toThrow(`Cannot use option ${flag}: it must be visible ASCII characters`);
  });

  test.each(["page.test", "https://page.test/", "https://page.test:443", "HTTPS://page.test"])(
    "the origin %s is refused",
    (origin) => {
      const check = () => requireUsableAccess(parse("--allowed-origins", origin));
      expect(check).toThrow(`Cannot use option --allowed-origins ${origin}: it is no origin`);
    },
  );

  test.each([
    "https://page.test",
    "http://localhost:5173",
    "null",
    "*",
    "chrome-extension://abcdefghijklmnop",
  ])("%s is one", (origin) => {
    requireUsableAccess(parse("--allowed-origins", origin));
  });

  test.each(["https://a.test", "a.test:80", "a b", "a/b", "@", ".", "*.a.test"])(
    "the name %s is refused",
    (name) => {
      const check = () => requireUsableAccess(parse("--allowed-hosts", name));
      expect(check).toThrow(`Cannot use option --allowed-hosts ${name}: it is no name of a host`);
    },
  );

  test.each(["a.test", "A.test", "host", "10.0.0.1", "*"])("the name %s is one", (name) => {
    requireUsableAccess(parse("--allowed-hosts", name));
  });
});

describe("who may use the server", () => {
  test.each([
    ["127.0.0.1", undefined, false, "programs on this machine may use the server, pages of other"],
    ["127.0.0.9", undefined, false, "programs on this machine"],
    ["localhost", undefined, false, "programs on this machine"],
    ["::1", undefined, false, "programs on this machine"],
    ["::ffff:127.0.0.1", undefined, false, "programs on this machine"],
    ["127.0.0.1.example.org", undefined, true, "every client that reaches 127.0.0.1.example.org"],
    ["0.0.0.0", undefined, true, "every client that reaches 0.0.0.0"],
    ["::", undefined, true, "every client that reaches ::"],
    ["0.0.0.0", "k", false, "must show the key"],
  ])("at %s with the key %s", (host, apiKey, isOpen, text) => {
    const access = describeAccess({ ...parse(), apiKey }, host);
    expect(access.isOpen).toBe(isOpen);
    expect(access.text).toContain(text);
  });

  test("of this machine's pages, by their origins", () => {
    const at = (...origins: string[]) =>
      describeAccess(parse("--allowed-origins", ...origins), "127.0.0.1");
    expect(at("https://a.test", "https://b.test")).toEqual({
      isOpen: false,
      text:
        "No key is asked for: programs on this machine may use the server, of the pages in its " +
        "browsers only those of https://a.test, https://b.test",
    });
    expect(at("*").isOpen).toBe(true);
    expect(at("*").text).toContain("every page that a browser on this machine shows may use");
  });
});

test("options are described without secrets", () => {
  const { values } = parseOptions(LAUNCH_OPTIONS, ["--api-key", "s3cret", "--port", "1"]);
  const description = describeOptions(LAUNCH_OPTIONS, { ...values, adminApiKey: "s3cret" });
  expect(description).toMatchObject({ port: 1, host: "127.0.0.1", max_running_requests: null });
  expect(JSON.stringify(description)).not.toContain("s3cret");
});

describe("wisp launch_server", () => {
  test("asks for the keys, limits bodies, and never tells a key", async () => {
    const args = ["--api-key", "k-user", "--admin-api-key", "k-admin", "--max-request-size", "200"];
    const command = startCommand(["launch_server", "--port", "0", ...args]);
    await command.isReady;
    expect(command.lines()).toContain("Clients must show the key of --api-key");
    const send = (path: string, key: string, init: RequestInit = {}) =>
      fetch(`${command.url()}${path}`, {
        ...init,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      });
    const status = async (...request: Parameters<typeof send>) => (await send(...request)).status;
    expect(await status("/v1/models", "other")).toBe(401);
    expect(await status("/v1/models", "k-user")).toBe(200);
    expect(await status("/flush_cache", "k-user")).toBe(403);
    expect(await status("/flush_cache", "k-admin")).toBe(200);
    const body = JSON.stringify({ text: "x".repeat(200) });
    expect(await status("/generate", "k-user", { method: "POST", body })).toBe(413);
    const info = await (await send("/get_server_info", "k-user")).text();
    expect(JSON.parse(info)).toMatchObject({ status: "ready", max_request_size: 200, port: 0 });
    sendSignal("SIGTERM");
    expect(await command.code).toBe(0);
    for (const text of [info, command.stdout(), command.stderr()]) expect(text).not.toMatch(/k-/);
  });

  test("warns when every client may use it", async () => {
    const command = startCommand(["launch_server", "--host", "0.0.0.0", "--port", "0"]);
    await command.isReady;
    const all = command.stdout() + command.stderr();
    expect(all).toContain("Warning: every client that reaches 0.0.0.0 may use this server");
    sendSignal("SIGTERM");
    expect(await command.code).toBe(0);
  });

  test("does not start with a key that no client could show", async () => {
    const command = startCommand(["launch_server", "--api-key", "two words"]);
    expect(await command.code).toBe(2);
    expect(command.stderr()).toContain(
      "Cannot use option --api-key: it must be visible ASCII characters",
    );
    expect(command.stderr()).not.toContain("two words");
    expect(command.stdout()).toBe("");
  });
});

/** `wisp chat` with what is piped in: what the model is given, what is shown, how it ends. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, describe, expect, test } from "vitest";
import { ChatDisplay } from "../../../src/node/chat/chat_display.ts";
import { GrowingMessage } from "../../../src/node/chat/chat_history.ts";
import { CHAT_OPTIONS } from "../../../src/node/chat/chat_options.ts";
import { openPartner } from "../../../src/node/chat/chat_partner.ts";
import { ChatSession } from "../../../src/node/chat/chat_session.ts";
import { INTERRUPT, type LineInput } from "../../../src/node/chat/line_input.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { type Script, ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { writePng } from "../../support/images/write_png.ts";
import { startCommand } from "../../support/package/run_command.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-chat-"));
afterAll(() => rmSync(folder, { recursive: true }));

const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 12}}\n</tool_call>';

/** An engine of Qwen's family that says these, one a question; the last for ever. */
function saying(...scripts: readonly Script[]): ScriptedEngine {
  let asked = 0;
  return new ScriptedEngine({
    model: { family: "qwen3", thinkingVariables: ["enable_thinking"] },
    script: () => scripts[Math.min(asked++, scripts.length - 1)]!,
  });
}

/** Runs it over lines to its end. */
async function chat(
  engine: ScriptedEngine,
  lines: readonly string[],
  args: readonly string[] = [],
) {
  const stdin = Readable.from([lines.map((line) => `${line}\n`).join("")]);
  const command = startCommand(["chat", ...args], engine, { stdin });
  const code = await command.code;
  return { code, stdout: command.stdout(), stderr: command.stderr() };
}

/** A chat with a tool, at the level of its session. */
async function sessionOver(engine: ScriptedEngine, lines: LineInput): Promise<ChatSession> {
  const quiet = { write: () => {} };
  const options = parseOptions(CHAT_OPTIONS, []).values;
  const context = { startEngine: async () => engine, stdout: quiet, stderr: quiet };
  const partner = await openPartner(options, context);
  const tools = [{ type: "function", function: { name: "add" } }];
  const settings = { system: undefined, tools, thinking: undefined, fields: {} };
  return new ChatSession(settings, { partner, lines, display: new ChatDisplay(quiet, quiet) });
}

const roles = ({ requests }: ScriptedEngine, request: number) =>
  requests[request]!.messages!.map(({ role, content }) => `${role}: ${content}`);

test("nothing commands the terminal that shows the standard error", () => {
  let [stdout, stderr] = ["", ""];
  const display = new ChatDisplay(
    { write: (text: string) => (stdout += text) },
    { write: (text: string) => (stderr += text) },
  );
  const evil = "\u001b]0;x\u0007";
  display.event({ type: "reasoning", text: `${evil}a` });
  display.event({ type: "call", index: 0, id: "c", name: `${evil}b` });
  display.event({ type: "arguments", index: 0, text: `${evil}c` });
  display.note(`${evil}d`);
  // What is piped on is the answer as it is.
  display.event({ type: "content", text: `${evil}e` });
  const harmless = "\ufffd]0;x\ufffd";
  expect(stderr).toBe(
    ["a", "b c", "d", ""].join("\n").replace(/[abd]|c/g, (c) => `${harmless}${c}`),
  );
  expect(stdout).toBe(`${evil}e`);
});

test("calls have any numbers that a server gives them", () => {
  const message = new GrowingMessage();
  for (const index of [4_000_000_000, 1, -3]) {
    message.take({ type: "call", index, id: `call_${index}`, name: "add" });
    message.take({ type: "arguments", index, text: String(index) });
  }
  expect(message.calls.map(({ function: called }) => called.arguments)).toEqual([
    "4000000000",
    "1",
    "-3",
  ]);
});

describe("a chat of piped lines", () => {
  test("has its answers on the standard output, and all else beside it", async () => {
    const engine = saying(
      { pieces: ["<think>", "Hm.", "</think>", "\n\nHi", "!"] },
      { pieces: ["Bye"] },
    );
    const { code, stdout, stderr } = await chat(engine, ["Hello", "", "So long"]);
    expect([code, stdout]).toEqual([0, "Hi!\nBye\n"]);
    expect(stderr).toMatch(
      /^Hm\.\n6 tokens · .*first token after [\d.]+ s · 0 of \d+ prompt tokens cached\n/,
    );
    expect(roles(engine, 1)).toEqual(["user: Hello", "assistant: Hi!", "user: So long"]);
    expect(engine.requests[1]!.messages![1]).toMatchObject({ reasoning_content: "Hm." });
  });

  test("gives on options, the system prompt, and several lines between quotes", async () => {
    const engine = saying({ pieces: ["x"] });
    const args = ["--system", "Be brief.", "--temperature", "0", "--max-new-tokens", "9"];
    await chat(engine, ['"""one', "", 'two"""', "/system none", "/thinking off", "three"], args);
    expect(engine.requests[0]).toMatchObject({ sampling: { temperature: 0, maxNewTokens: 9 } });
    expect(roles(engine, 0)).toEqual(["system: Be brief.", "user: one\n\ntwo"]);
    expect(roles(engine, 1)[0]).toBe("user: one\n\ntwo");
    expect(engine.requests[1]).toMatchObject({ templateVariables: { enable_thinking: false } });
  });

  test("asks for the results of tools, and goes on with them", async () => {
    const tools = join(folder, "tools.json");
    writeFileSync(tools, JSON.stringify([{ type: "function", function: { name: "add" } }]));
    const engine = saying({ pieces: [...CALL] }, { pieces: ["47"] });
    const { code, stdout, stderr } = await chat(
      engine,
      ["12 + 35?", "it is 47"],
      ["--tools", tools],
    );
    expect([code, stdout]).toEqual([0, "47\n"]);
    expect(stderr).toContain('What does add({"a": 12}) give?');
    expect(engine.requests[0]!.tools).toHaveLength(1);
    expect(roles(engine, 1)).toEqual(["user: 12 + 35?", "assistant: ", "tool: it is 47"]);
    // Without a result the call is not part of the chat.
    const left = saying({ pieces: [CALL] });
    expect((await chat(left, ["12 + 35?"], ["--tools", tools])).code).toBe(0);
    expect(left.requests).toHaveLength(1);
  });

  test("has no messages of a question whose call got no result, nor of one that failed", async () => {
    const engine = saying({ pieces: [CALL] }, { pieces: ["Let me see. ", CALL] }, { pieces: [] });
    const interrupted: LineInput = {
      read: async () => INTERRUPT,
      onInterrupt: undefined,
      close: () => {},
    };
    const chat = await sessionOver(engine, interrupted);
    expect([await chat.ask("a"), chat.messages]).toEqual([false, []]);
    expect(await chat.ask("b")).toBe(true);
    const said = [
      { role: "user", content: "b" },
      { role: "assistant", content: "Let me see." },
    ];
    expect(chat.messages).toEqual(said);
    expect([await chat.ask("c"), chat.messages]).toEqual([false, said]);
  });

  test("/retry puts another answer in place of the last, /clear begins anew", async () => {
    const engine = saying({ pieces: ["one"] }, { pieces: ["two"] }, { pieces: ["three"] });
    const { stdout } = await chat(engine, ["a", "/retry", "b", "/clear", "c"]);
    expect(stdout).toBe("one\ntwo\nthree\nthree\n");
    expect(roles(engine, 1)).toEqual(["user: a"]);
    expect(roles(engine, 2)).toEqual(["user: a", "assistant: two", "user: b"]);
    expect(roles(engine, 3)).toEqual(["user: c"]);
  });

  test("/save writes messages or Markdown, and never over a file", async () => {
    const [json, markdown] = [join(folder, "chat.json"), join(folder, "chat.md")];
    const lines = ["Hello", `/save ${json}`, `/save ${markdown}`, `/save ${json}`];
    const { code, stderr } = await chat(saying({ pieces: ["Hi"] }), lines, [
      "--system",
      "Be brief.",
    ]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("is there already")]);
    expect(JSON.parse(readFileSync(json, "utf8"))).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
      { role: "assistant", content: "Hi" },
    ]);
    expect(readFileSync(markdown, "utf8")).toBe(
      "## System\n\nBe brief.\n\n## You\n\nHello\n\n## Answer\n\nHi\n",
    );
  });

  test.each([
    ["/nope", "there is no such command"],
    ["/constructor", "there is no such command"],
    ["/tools /nowhere.json", "ENOENT"],
    ["/thinking maybe", '"on", "off" or "auto"'],
    ["/retry", "nothing has been asked"],
    ["/save", "the name of a file is missing"],
  ])("%s ends it with 1", async (line, message) => {
    const { code, stderr } = await chat(saying({ pieces: ["x"] }), [line, "never asked"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  });

  test("/image shows pictures with the next question, and /save keeps them", async () => {
    const files = ["one", "two"].map((name, i) => {
      const png = writePng({ colorType: 0, bitDepth: 8, width: 2, height: 2, sample: () => i });
      const file = join(folder, `${name}.png`);
      writeFileSync(file, png);
      return file;
    });
    const saved = join(folder, "images.json");
    const engine = saying({ pieces: ["A cat"] });
    Object.assign(engine.model, { readsImages: true });
    const lines = [`/image ${files[0]}`, `/image ${files[1]}`, "/image", "What is it?", "And now?"];
    const { code, stderr } = await chat(engine, [...lines, `/save ${saved}`, "/retry"]);
    expect([code, stderr]).toEqual([0, expect.stringContaining("question: one.png, two.png")]);
    const shownTo = engine.requests.map(({ images = [] }) =>
      images.map((png) => [...(png as Uint8Array)].length),
    );
    const sizes = files.map((file) => readFileSync(file).length);
    expect(shownTo).toEqual([sizes, sizes, sizes]);
    expect(engine.requests[0]!.images![1]).toEqual(new Uint8Array(readFileSync(files[1]!)));
    const [first] = JSON.parse(readFileSync(saved, "utf8"));
    expect(first.content.map(({ type }: { type: string }) => type)).toEqual([
      "image_url",
      "image_url",
      "text",
    ]);
    expect(first.content[0].image_url.url).toMatch(/^data:image\/png;base64,iVBOR/);
  });

  test.each([
    ["jpeg", "ffd8ffe000104a46494600"],
    ["gif", "4749463839610100010000"],
    ["webp", "524946460a00000057454250"],
  ])("/image shows a server of this kind a file of %s", async (type, hex) => {
    const file = join(folder, `picture.${type}`);
    writeFileSync(file, Buffer.from(hex, "hex"));
    const engine = saying({ pieces: ["A cat"] });
    Object.assign(engine.model, { readsImages: true });
    const { code } = await chat(engine, [`/image ${file}`, "What is it?"]);
    expect(code).toBe(0);
    expect(engine.requests[0]!.images).toEqual([new Uint8Array(readFileSync(file))]);
  });

  test.each([
    [true, "none.png", "ENOENT"],
    [true, "text.png", "it is no file of PNG"],
    [true, "large.png", "it has 11534337 bytes, more than 11534336"],
    [false, "text.png", "reads text only"],
  ])("/image of what cannot be shown is refused (%s, %s)", async (readsImages, name, message) => {
    writeFileSync(join(folder, "text.png"), "text");
    writeFileSync(join(folder, "large.png"), new Uint8Array(11 * 2 ** 20 + 1));
    const engine = saying({ pieces: ["x"] });
    Object.assign(engine.model, { readsImages });
    const { code, stderr } = await chat(engine, [`/image ${join(folder, name)}`]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  });

  test("/help tells of every command, /exit ends the program", async () => {
    const engine = saying({ pieces: ["x"] });
    const { code, stderr } = await chat(engine, ["/help", "/exit", "never asked"]);
    expect(code).toBe(0);
    for (const name of [
      "system",
      "image",
      "tools",
      "thinking",
      "retry",
      "save",
      "clear",
      "exit",
      "help",
    ]) {
      expect(stderr).toContain(`/${name}`);
    }
    expect(engine.requests).toEqual([]);
  });

  test("a failure ends it with 1", async () => {
    const engine = saying({ pieces: ["a"], failure: { at: 1, error: new Error("broken") } });
    const { code, stderr } = await chat(engine, ["Hello", "never asked"]);
    expect(code).toBe(1);
    expect(stderr).not.toBe("");
    expect(engine.requests).toHaveLength(1);
  });
});

describe("a chat with a server", () => {
  test("needs its key, and no model here", async () => {
    const app = createApp(saying({ pieces: ["Hi"] }), { apiKey: "key" });
    const server = await serve(app, { host: "127.0.0.1", port: 0 });
    const local = new ScriptedEngine();
    const url = ["--url", `${server.url}/v1/`];
    const wrong = await chat(local, ["Hello"], url);
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining("Unauthorized")]);
    const { code, stdout } = await chat(local, ["Hello"], [...url, "--api-key", "key"]);
    expect([code, stdout]).toEqual([0, "Hi\n"]);
    expect(local.requests).toEqual([]);
    await server.close(0);
  });

  test("that is not there, or no server of models, is told, and commands no terminal", async () => {
    const said = "\u001b]0;x\u0007a\u009b2J shop\r\n";
    const other = createServer((_, response) => response.writeHead(404).end(said));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    expect(await chat(new ScriptedEngine(), [], ["--url", url])).toMatchObject({
      code: 1,
      stderr: "\ufffd]0;x\ufffda\ufffd2J shop\n",
    });
    await new Promise((resolve) => other.close(resolve));
    const { code, stderr } = await chat(new ScriptedEngine(), [], ["--url", url]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("ECONNREFUSED")]);
  });

  test.each([
    [["--url", "example.org"], "--url example.org: it is no address"],
    [["--url", "http://a", "--model-path", "b"], "--model-path with --url"],
    [["--url", "http://a", "--tp", "2"], "--tp-size with --url"],
    [["--api-key", "key"], "--api-key without --url"],
    [["--tools", "/nowhere.json"], "--tools: ENOENT"],
    [["Hello"], '"Hello"'],
  ])("%j ends with 2", async (args, message) => {
    const { code, stderr } = await chat(new ScriptedEngine(), [], args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});

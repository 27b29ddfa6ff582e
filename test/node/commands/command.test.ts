import { EventEmitter } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, test, vi } from "vitest";
import { CheckpointError } from "../../../src/errors.ts";
import type { FinishReason } from "../../../src/generation.ts";
import { exitOnBrokenPipe } from "../../../src/node/command.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { sendSignal, startCommand } from "../../support/package/run_command.ts";

const READY = "Ready: ";

const FIRED_UP = "The server is fired up and ready to roll!";

describe("wisp launch_server", () => {
  test("prints its lines in order, serves, and ends with 0 on a signal", async () => {
    const args = ["--model", "dir", "--port", "0", "--disable-web-page"];
    const command = startCommand(["launch_server", ...args]);
    await command.isReady;
    const lines = command.lines();
    const url = command.url();
    expect(lines).toEqual([
      "Model: dir",
      "Adapter: llvmpipe (Vulkan, driver Mesa 25)",
      "Warning: this adapter runs on the CPU, a GPU would be many times faster",
      "Memory: 1 GiB of weights",
      "Loading weights: 25%",
      "Loading weights: 50%",
      "Loading weights: 75%",
      "Loading weights: 100%",
      expect.stringMatching(/^Listening on http:\/\/127\.0\.0\.1:\d+$/),
      "No key is asked for: programs on this machine may use the server, pages of other origins in its browsers may not",
      expect.stringMatching(/^Ready: \S+ answers at http:\/\/127\.0\.0\.1:\d+$/),
    ]);
    expect(command.stdout()).toBe("");
    expect((await fetch(`${url}/health`)).status).toBe(200);
    expect(command.engine.requests).toHaveLength(1);

    sendSignal("SIGTERM");
    expect(await command.code).toBe(0);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
    expect(process.listeners("SIGTERM")).toHaveLength(process.listeners("SIGINT").length);
  });

  test.each([
    ["text", []],
    ["json", []],
    ["sglang", ["Uvicorn running on URL (as scripts expect it; this is wisp)", FIRED_UP]],
  ])("--log-format %s writes %j for scripts", async (format, wanted) => {
    const command = startCommand(["launch_server", "--port", "0", "--log-format", format]);
    await command.isReady;
    sendSignal("SIGTERM");
    expect(await command.code).toBe(0);
    const scripts = command.lines().filter((line) => /Uvicorn|fired up/.test(line));
    expect(scripts).toEqual(wanted.map((line) => line.replace("URL", command.url())));
  });

  test("--dist-timeout is taken and said to change nothing", async () => {
    const command = startCommand(["launch_server", "--port", "0", "--dist-timeout", "3600"]);
    await command.isReady;
    sendSignal("SIGTERM");
    expect(await command.code).toBe(0);
    expect(command.lines()[0]).toMatch(/^Option --dist-timeout changes nothing: /);
  });

  test("lets a running request finish after a signal", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const engine = new ScriptedEngine({
      script: ({ prompt }) =>
        prompt === "slow" ? { pieces: ["a", "b"], gate: () => gate } : { pieces: ["x"] },
    });
    const command = startCommand(["launch_server", "--port", "0"], engine);
    await command.isReady;
    const url = command.url();
    const answer = fetch(`${url}/generate`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ text: "slow" }),
    });
    while (engine.requests.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    sendSignal("SIGINT");
    release();
    expect(((await (await answer).json()) as { text: string }).text).toBe("ab");
    expect(await command.code).toBe(0);
  });

  test("a signal during the first request ends it, and nothing says that the server is ready", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const finish = { type: "abort", message: "the engine is closed" } as const;
    const engine = new ScriptedEngine({
      script: () => ({ pieces: ["a"], finish, gate: () => gate }),
    });
    const command = startCommand(["launch_server", "--port", "0"], engine);
    while (engine.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    sendSignal("SIGTERM");
    release();
    expect(await command.code).toBe(0);
    expect(command.stderr()).not.toContain(READY);
  });

  test("the first request fits into the shortest context", async () => {
    const engine = new ScriptedEngine({ model: { contextLength: 2 } });
    const command = startCommand(["launch_server", "--port", "0"], engine);
    await command.isReady;
    sendSignal("SIGTERM");
    expect(await command.code).toBe(0);
  });

  test("a start that fails prints one sentence and ends with 1", async () => {
    const command = startCommand(["launch_server", "--port", "0"], undefined, {
      start: async () => {
        throw new CheckpointError("config.json", "there is no such file");
      },
    });
    expect(await command.code).toBe(1);
    expect(command.stderr()).toBe("Cannot load config.json: there is no such file\n");
  });

  test("a first request that fails ends the start", async () => {
    const error = new Error("kernel went wrong");
    const engine = new ScriptedEngine({ script: () => ({ failure: { at: 0, error } }) });
    const command = startCommand(["launch_server", "--port", "0"], engine);
    expect(await command.code).toBe(1);
    expect(command.lines().at(-1)).toBe("kernel went wrong");
  });

  test("a bad option ends with 2", async () => {
    const command = startCommand(["launch_server", "--prot", "1"]);
    expect(await command.code).toBe(2);
    expect(command.stderr()).toContain("did you mean --port?");
  });

  test("--help prints the options", async () => {
    const command = startCommand(["launch_server", "--help"]);
    expect(await command.code).toBe(0);
    expect(command.stdout()).toContain("--model-path, --model MODEL");
  });
});

describe("wisp generate", () => {
  test("streams the answer to a chat message", async () => {
    const engine = new ScriptedEngine({
      script: () => ({ pieces: ["Hel", "lo"] }),
      model: { defaults: { temperature: 0.6 } },
    });
    const command = startCommand(["generate", "Hi there", "--max-new-tokens", "7"], engine);
    expect(await command.code).toBe(0);
    expect(command.stdout()).toBe("Hello\n");
    expect(engine.requests[0]).toMatchObject({
      messages: [{ role: "user", content: "Hi there" }],
      sampling: { temperature: 0.6, maxNewTokens: 7 },
    });
  });

  test("without --max-new-tokens the answer may fill a context of any length", async () => {
    const engine = new ScriptedEngine({ script: () => ({ pieces: ["x"] }) });
    expect(await startCommand(["generate", "Hi"], engine).code).toBe(0);
    expect(engine.requests[0]!.sampling!.maxNewTokens).toBeNull();
  });

  test("--raw continues the prompt, --temperature wins over the model's", async () => {
    const engine = new ScriptedEngine({ script: () => ({ pieces: ["x"] }) });
    const command = startCommand(["generate", "--raw", "--temperature=0", "Once"], engine);
    expect(await command.code).toBe(0);
    expect(engine.requests[0]).toMatchObject({ prompt: "Once", sampling: { temperature: 0 } });
  });

  const piped = (...pieces: readonly (string | Uint8Array)[]) => Readable.from(pieces);

  test("reads a prompt that is piped in, whole characters over the ends of pieces", async () => {
    const engine = new ScriptedEngine({ script: () => ({ pieces: ["x"] }) });
    const [first, ...rest] = new TextEncoder().encode("ä b\n\n");
    const stdin = piped(Uint8Array.of(first!), Uint8Array.from(rest));
    expect(await startCommand(["generate", "--raw"], engine, { stdin }).code).toBe(0);
    expect(engine.requests[0]).toMatchObject({ prompt: "ä b\n" });
  });

  test("what is piped in stands behind the prompt", async () => {
    const engine = new ScriptedEngine({ script: () => ({ pieces: ["x"] }) });
    const stdin = piped("a file\n");
    expect(await startCommand(["generate", "--raw", "Summarise"], engine, { stdin }).code).toBe(0);
    expect(engine.requests[0]).toMatchObject({ prompt: "Summarise\n\na file" });
  });

  test("--json-schema holds the answer to the schema of a file", async () => {
    const file = join(mkdtempSync(join(tmpdir(), "wisp-schema-")), "schema.json");
    writeFileSync(file, '{"type": "integer"}');
    const engine = new ScriptedEngine({ script: () => ({ pieces: ["7"] }) });
    expect(await startCommand(["generate", "Hi", "--json-schema", file], engine).code).toBe(0);
    expect(engine.requests[0]).toMatchObject({ sampling: { jsonSchema: '{"type": "integer"}' } });
    writeFileSync(file, '{"type": ');
    for (const wrong of [file, "/nowhere.json"]) {
      const command = startCommand(["generate", "Hi", "--json-schema", wrong]);
      expect(await command.code).toBe(2);
      expect(command.stderr()).toContain(`Cannot use option --json-schema ${wrong}: `);
    }
    rmSync(dirname(file), { recursive: true });
  });

  test("an answer that is not whole ends with 1, and what there is of it is written", async () => {
    const limited = (finish: FinishReason) =>
      new ScriptedEngine({ script: () => ({ pieces: ["[1"], finish }) });
    const cut = { type: "length", length: 1 } as const;
    const schema = join(mkdtempSync(join(tmpdir(), "wisp-schema-")), "schema.json");
    writeFileSync(schema, "true");
    expect(await startCommand(["generate", "Hi"], limited(cut)).code).toBe(0);
    const json = startCommand(["generate", "Hi", "--json-schema", schema], limited(cut));
    expect([await json.code, json.stdout()]).toEqual([1, "[1\n"]);
    expect(json.stderr()).toBe(
      "Cannot complete the answer: it is cut off at 1 tokens, and no JSON yet\n",
    );
    const lost = { type: "abort", message: "the device is gone" } as const;
    const aborted = startCommand(["generate", "Hi"], limited(lost));
    expect([await aborted.code, aborted.stderr()]).toEqual([
      1,
      "Cannot complete the answer: the device is gone\n",
    ]);
    rmSync(dirname(schema), { recursive: true });
  });

  test.each([
    ["a terminal", Object.assign(piped("typed"), { isTTY: true })],
    ["an empty pipe", piped("\n")],
  ])("without a prompt and with %s ends with 2", async (_, stdin) => {
    const command = startCommand(["generate"], undefined, { stdin });
    expect(await command.code).toBe(2);
    expect(command.stderr()).toBe("Cannot generate: a prompt is missing\n");
  });

  test.each([
    [["generate"], "a prompt is missing"],
    [["generate", "two", "words"], 'Cannot use argument "words"'],
  ])("%j ends with 2", async (args, message) => {
    const command = startCommand(args);
    expect(await command.code).toBe(2);
    expect(command.stderr()).toContain(message);
  });
});

test.each([
  [["--help"], 0, /^Usage: wisp.*\n {2}serve ID\|DIR.*\n {2}download ID/s],
  [["--version"], 0, /^\d+\.\d+\.\d+\n$/],
])("wisp %j", async (args, code, pattern) => {
  const command = startCommand(args);
  expect(await command.code).toBe(code);
  expect(command.stdout()).toMatch(pattern);
});

test.each([[[]], [["toString"]], [["server"]]])("wisp %j ends with 2", async (args) => {
  const command = startCommand(args);
  expect(await command.code).toBe(2);
  expect(command.stderr()).toContain("launch_server");
});

test("a reader that leaves ends the program instead of a stack trace", () => {
  const output = new EventEmitter();
  const exit = vi.fn();
  exitOnBrokenPipe(output, exit);
  output.emit("error", Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
  expect(exit).toHaveBeenCalledWith(0);
  expect(() => output.emit("error", new Error("disk full"))).toThrow("disk full");
});

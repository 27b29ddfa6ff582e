import { EventEmitter } from "node:events";
import { describe, expect, test, vi } from "vitest";
import { CheckpointError } from "../../src/errors.ts";
import { exitOnBrokenPipe } from "../../src/node/command.ts";
import { sendSignal, startCommand } from "../support/run_command.ts";
import { ScriptedEngine } from "../support/scripted_engine.ts";

const READY = "The server is fired up and ready to roll!";

describe("wisp launch_server", () => {
  test("prints its lines in order, serves, and ends with 0 on a signal", async () => {
    const command = startCommand(["launch_server", "--model", "dir", "--port", "0"]);
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
      "No key is asked for; only this machine is served",
      expect.stringMatching(/^Uvicorn running on http:\/\/127\.0\.0\.1:\d+ /),
      READY,
    ]);
    expect((await fetch(`${url}/health`)).status).toBe(200);
    expect(command.engine.requests).toHaveLength(1);

    sendSignal("SIGTERM");
    expect(await command.code).toBe(0);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
    expect(process.listeners("SIGTERM")).toHaveLength(process.listeners("SIGINT").length);
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
    expect(command.stdout()).not.toContain(READY);
  });

  test("the first request fits into the shortest context", async () => {
    const engine = new ScriptedEngine({ model: { contextLength: 2 } });
    const command = startCommand(["launch_server", "--port", "0"], engine);
    await command.isReady;
    sendSignal("SIGTERM");
    expect(await command.code).toBe(0);
  });

  test("a start that fails prints one sentence and ends with 1", async () => {
    const command = startCommand(["launch_server"], undefined, async () => {
      throw new CheckpointError("config.json", "there is no such file");
    });
    expect(await command.code).toBe(1);
    expect(command.stderr()).toBe("Cannot load config.json: there is no such file\n");
  });

  test("a first request that fails ends the start", async () => {
    const error = new Error("kernel went wrong");
    const engine = new ScriptedEngine({ script: () => ({ failure: { at: 0, error } }) });
    const command = startCommand(["launch_server", "--port", "0"], engine);
    expect(await command.code).toBe(1);
    expect(command.stderr()).toBe("kernel went wrong\n");
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

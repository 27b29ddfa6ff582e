import { createServer } from "node:net";
import { afterEach, describe, expect, test, vi } from "vitest";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { type CommandRun, sendSignal, startCommand } from "../../support/package/run_command.ts";
import { until } from "../../support/until.ts";

const open: CommandRun[] = [];

afterEach(async () => {
  vi.unstubAllEnvs();
  // A signal reaches the newest.
  for (const server of open.splice(0).reverse()) {
    sendSignal("SIGTERM");
    await server.code;
  }
});

/** A server that is ready, and is stopped after the test. */
async function served(args: readonly string[] = [], engine?: ScriptedEngine): Promise<CommandRun> {
  const server = startCommand(["launch_server", "--port", "0", ...args], engine);
  await server.isReady;
  open.push(server);
  return server;
}

/** The same, which the test stops itself. */
async function stoppable(args: readonly string[] = [], engine?: ScriptedEngine) {
  const server = await served(args, engine);
  open.pop();
  return server;
}

function generate(url: string, body: object, init: RequestInit = {}): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return fetch(`${url}/generate`, { method: "POST", headers, body: JSON.stringify(body), ...init });
}

/** An engine whose answers to "slow" wait until `release` is called. */
function slowEngine() {
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const engine = new ScriptedEngine({
    script: ({ prompt }) =>
      prompt === "slow" ? { pieces: ["a", "b"], gate: () => gate } : { pieces: ["x"] },
  });
  return { engine, release: () => release() };
}

/** The answer to a request that does not end by itself. */
function slowAnswer({ url }: CommandRun): Promise<Response> {
  const answer = generate(url(), { text: "slow" });
  answer.catch(() => {});
  return answer;
}

describe("a server at SIGTERM", () => {
  test("refuses what comes and finishes what runs, then ends with 0", async () => {
    const { engine, release } = slowEngine();
    const server = await stoppable([], engine);
    const answer = slowAnswer(server);
    await until(() => expect(engine.running).toHaveLength(1));
    sendSignal("SIGTERM");
    expect((await fetch(`${server.url()}/health`)).status).toBe(503);
    const refused = await generate(server.url(), { text: "late" });
    expect(refused.status).toBe(503);
    expect(refused.headers.get("connection")).toBe("close");
    release();
    expect(((await (await answer).json()) as { text: string }).text).toBe("ab");
    expect(await server.code).toBe(0);
    await expect(fetch(`${server.url()}/health`)).rejects.toThrow();
    expect(server.stderr()).toContain("Stopping: running requests have 300 seconds to finish");
  });

  test("with an idle connection ends at once", async () => {
    const server = await stoppable();
    // Its connection is kept alive.
    await (await fetch(`${server.url()}/v1/models`)).text();
    sendSignal("SIGTERM");
    expect(await server.code).toBe(0);
  });

  test("aborts what still runs after --drain-timeout, and ends with 1", async () => {
    const { engine } = slowEngine();
    const closed = vi.spyOn(engine, "close").mockImplementation(async () => engine.abort());
    const server = await stoppable(["--drain-timeout", "0.1"], engine);
    const answer = slowAnswer(server);
    await until(() => expect(engine.running).toHaveLength(1));
    sendSignal("SIGTERM");
    const { meta_info } = (await (await answer).json()) as {
      meta_info: { finish_reason: { type: string } };
    };
    expect(meta_info.finish_reason.type).toBe("abort");
    expect(await server.code).toBe(1);
    expect(closed).toHaveBeenCalledOnce();
    expect(server.lines().at(-1)).toBe(
      "Cannot wait any longer: requests that still ran after 0.1 seconds were aborted",
    );
  });

  test("cuts the connection of a request that does not end even then", async () => {
    const { engine } = slowEngine();
    const server = await stoppable(["--drain-timeout", "0"], engine);
    const answer = slowAnswer(server);
    await until(() => expect(engine.running).toHaveLength(1));
    sendSignal("SIGTERM");
    await expect(answer).rejects.toThrow();
    expect(await server.code).toBe(1);
  });

  test.each(["SIGTERM", "SIGINT"] as const)("ends at once when %s follows", async (second) => {
    const { engine, release } = slowEngine();
    const server = await stoppable([], engine);
    const answer = slowAnswer(server);
    await until(() => expect(engine.running).toHaveLength(1));
    const exit = vi.spyOn(process, "exit").mockImplementation(() => undefined as never);
    try {
      sendSignal("SIGTERM");
      expect(exit).not.toHaveBeenCalled();
      sendSignal(second);
      expect(exit).toHaveBeenCalledWith(143);
    } finally {
      exit.mockRestore();
      release();
    }
    await (await answer).text();
    await server.code;
  });
});

describe("/health", () => {
  test("is 503 until the first request has worked", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const engine = new ScriptedEngine({ script: () => ({ pieces: ["a"], gate: () => gate }) });
    const server = startCommand(["launch_server", "--port", "0"], engine);
    open.push(server);
    await until(() => expect(engine.running).toHaveLength(1));
    expect((await fetch(`${server.url()}/health`)).status).toBe(503);
    release();
    await server.isReady;
    expect((await fetch(`${server.url()}/health`)).status).toBe(200);
  });

  test("is 503, and the log says so, when no step finishes for --watchdog-timeout", async () => {
    const engine = new ScriptedEngine({ stalledFor: 3 });
    const server = await served(["--watchdog-timeout", "2"], engine);
    expect((await fetch(`${server.url()}/health`)).status).toBe(503);
    await until(() => expect(server.stderr()).toContain("No step has finished for 2 seconds"));
  });
});

describe("wisp launch_server", () => {
  test("counts requests for /metrics with --enable-metrics, but none of its own", async () => {
    const { url } = await served(["--enable-metrics", "--served-model-name", "org/name"]);
    expect((await fetch(`${url()}/health_generate`)).status).toBe(200);
    await generate(url(), { text: "ab" });
    const text = await (await fetch(`${url()}/metrics`)).text();
    expect(text).toContain('wisp:num_requests_total{model_name="org/name"} 1\n');
    expect(text).toMatch(/^wisp:engine_startup_time\{.*\} 0\.\d+$/m);
    expect(text).toMatch(/^wisp:engine_load_weights_time\{.*\} \d/m);
    const without = await served();
    expect((await fetch(`${without.url()}/metrics`)).status).toBe(404);
  });

  test("logs requests with --log-requests", async () => {
    const { url, stderr } = await served(["--log-requests", "--log-requests-level", "1"]);
    const sampling_params = { temperature: 0.5 };
    await generate(url(), { text: "secret", rid: "r-7", sampling_params });
    expect(stderr()).toMatch(/Finish request\. rid: r-7, prompt_tokens: 6,.*"temperature":0\.5/);
    expect(stderr()).not.toContain("secret");
  });

  test("names a field that changes no answer once in its log", async () => {
    const { url, lines } = await served(["--stream-interval", "2"]);
    for (const user of ["a", "b"]) await generate(url(), { text: "a", user, store: null });
    const told = lines().filter((line) => line.includes("The server takes"));
    expect(told).toHaveLength(1);
    expect(told[0]).toMatch(/The server takes the field "user" and does nothing with it$/);
  });

  test("serves a model under the name of its folder", async () => {
    const engine = new ScriptedEngine({ model: { path: "/models/tiny" } });
    const { url } = await served(["--enable-metrics"], engine);
    const { data } = (await (await fetch(`${url()}/v1/models`)).json()) as { data: object[] };
    expect(data).toMatchObject([{ id: "tiny", root: "/models/tiny" }]);
    const info = await (await fetch(`${url()}/get_server_info`)).json();
    expect(info).toMatchObject({ served_model_name: "tiny", model_path: "/models/tiny" });
    await generate(url(), { text: "a" });
    const metrics = await (await fetch(`${url()}/metrics`)).text();
    expect(metrics).toContain('wisp:num_requests_total{model_name="tiny"} 1\n');
  });

  test("logs no requests unless asked", async () => {
    const { url, stderr } = await served();
    await generate(url(), { text: "a", rid: "r-7" });
    expect(stderr()).not.toContain("r-7");
  });

  test("says Abort at the level debug when a client leaves", async () => {
    const { engine, release } = slowEngine();
    const { url, stderr } = await served(["--log-level", "debug"], engine);
    const client = new AbortController();
    const answer = generate(url(), { text: "slow" }, { signal: client.signal });
    answer.catch(() => {});
    await until(() => expect(engine.running).toHaveLength(1));
    client.abort();
    await until(() => expect(stderr()).toContain("Abort request. rid:"));
    release();
  });

  test("writes nothing but JSON with --log-format json", async () => {
    const { url, stderr } = await served(["--log-format", "json", "--log-requests"]);
    await generate(url(), { text: "a" });
    const lines = stderr().trimEnd().split("\n");
    const levels = lines.map((line) => (JSON.parse(line) as { level: string }).level);
    expect(new Set(levels)).toEqual(new Set(["info", "warning"]));
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ event: "request_finished", finish: "stop" });
  });

  test("writes only errors with --log-level error", async () => {
    const server = startCommand(["launch_server", "--port", "0", "--log-level", "error"]);
    await until(() => expect(server.engine.requests).toHaveLength(1));
    await until(() => expect(server.engine.running).toHaveLength(0));
    sendSignal("SIGTERM");
    expect(await server.code).toBe(0);
    expect(server.stdout() + server.stderr()).toBe("");
  });

  test("gives requests the preferred parameters and the stream interval", async () => {
    const params = JSON.stringify({ temperature: 0.25, max_new_tokens: 3 });
    const { url, engine } = await served([
      "--preferred-sampling-params",
      params,
      "--stream-interval",
      "4",
    ]);
    await generate(url(), { text: "a" });
    expect(engine.requests.at(-1)).toMatchObject({
      sampling: { temperature: 0.25, maxNewTokens: 3 },
      streamInterval: 4,
    });
  });

  test("warns of variables without an effect", async () => {
    vi.stubEnv("SVC_SET_CPU_AFFINITY", "1");
    const { stderr } = await served();
    expect(stderr()).toMatch(/^Warning: the variable SVC_SET_CPU_AFFINITY has no effect here/);
  });

  test.each([
    [["--preferred-sampling-params", "{"], "it must be a JSON object"],
    [
      ["--preferred-sampling-params", '{"top_p": 2}'],
      "Cannot use option --preferred-sampling-params: preferred_sampling_params.top_p must be",
    ],
    [["--log-requests-level", "2"], "--log-requests-level without --log-requests"],
    [["--collect-tokens-histogram"], "--collect-tokens-histogram without --enable-metrics"],
    [["--config", "nowhere.json"], "Cannot use nowhere.json: there is no such file"],
    [["--stream-interval", "0"], "it must be a whole number, 1 or more"],
  ])("%j ends with 2 and one sentence, before anything is loaded", async (args, message) => {
    const command = startCommand(["launch_server", ...args]);
    expect(await command.code).toBe(2);
    expect(command.stderr()).toContain(message);
    expect(command.stderr().trimEnd()).not.toContain("\n");
    expect(command.started).toEqual([]);
  });

  test("says that a port is in use before it loads anything", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as { port: number };
    const command = startCommand(["launch_server", "--port", String(port)]);
    expect(await command.code).toBe(1);
    expect(command.stderr()).toContain("the port is in use");
    expect(command.started).toEqual([]);
    await new Promise((resolve) => other.close(resolve));
  });
});

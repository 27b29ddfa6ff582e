/** The commands of the installed program: what they print, where, and how they end. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { freePort, lackOfMpi, tellLack } from "../support/mpi/processes.ts";
import { serveHub } from "../support/server/hub_server.ts";
import { embeddedOnHub } from "./support/environment.ts";
import { program, scratch, serveWisp, shipped, stopAll, wisp } from "./support/wisp.ts";

afterAll(stopAll);

const ANSWER = "I was trained from scratch";
const GREEDY = ["--temperature", "0", "--max-new-tokens", "12"];

describe("wisp generate", () => {
  test("writes the answer to the standard output, and nothing else", async () => {
    const { code, stdout } = await wisp(["generate", "Who are you?", ...GREEDY]);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^${ANSWER}.*\n$`));
  });

  test("takes the prompt from the standard input", async () => {
    const input = "Who are you?\n";
    const { code, stdout } = await wisp(["generate", ...GREEDY], { input });
    expect([code, stdout]).toEqual([0, expect.stringContaining(ANSWER)]);
    const empty = await wisp(["generate", ...GREEDY]);
    expect([empty.code, empty.stderr]).toEqual([2, expect.stringContaining("prompt")]);
  });
});

describe("wisp serve", () => {
  test("downloads a model from a hub, serves it, and finds it there the next time", async () => {
    const hub = await serveHub(embeddedOnHub());
    const env = { HF_ENDPOINT: hub.url, HF_HOME: scratch("hf") };
    const command = ["serve", "org/embedded"];
    const first = await serveWisp(["--served-model-name", "m"], { command, env });
    const chat = { messages: [{ role: "user", content: "Who are you?" }], temperature: 0 };
    const answer = await first.post("/v1/chat/completions", { ...chat, max_tokens: 12 });
    expect(await answer.text()).toContain(ANSWER);
    expect((await first.stop()).code).toBe(0);
    const hits = hub.hits.filter(({ kind }) => kind !== "list").length;
    expect(hits).toBeGreaterThan(0);
    await hub.close();

    const second = await serveWisp(["--offline"], { command, env });
    expect((await second.stop("SIGINT")).code).toBe(0);
  });
});

describe("a server", () => {
  test("takes a profile of everything, counts, and ends at once at a second signal", async () => {
    const profiles = scratch("profiles");
    const server = await serveWisp(["--enable-metrics", "--profile-dir", profiles]);
    expect((await server.post("/start_profile", {})).status).toBe(200);
    const body = { text: "Hello", sampling_params: { max_new_tokens: 4, ignore_eos: true } };
    expect((await server.post("/generate", body)).status).toBe(200);
    expect((await server.post("/stop_profile", {})).status).toBe(200);
    await server.sees(/Profile: \S+/);
    const [trace] = readdirSync(profiles);
    expect(readFileSync(join(profiles, trace!), "utf8")).toContain("traceEvents");
    expect(await (await server.get("/metrics")).text()).toMatch(
      /^wisp:generation_tokens_total\{.*\} 4$/m,
    );

    const endless = { sampling_params: { max_new_tokens: null, ignore_eos: true } };
    const stream = await server.post("/generate", { text: "Hello", stream: true, ...endless });
    await stream.body!.getReader().read();
    server.process.kill("SIGTERM");
    await server.sees(/Stopping: /);
    expect((await server.stop("SIGTERM")).code).toBe(143);
  });

  test("bench_serving measures it", async () => {
    const server = await serveWisp(["--api-key", "sk-2"]);
    const load = ["--num-prompts", "4", "--random-input-len", "16", "--random-output-len", "4"];
    const args = ["bench_serving", "--base-url", server.url, ...load];
    const { code, stdout, stderr } = await wisp(args, { env: { OPENAI_API_KEY: "sk-2" } });
    expect([code, stdout], stderr).toEqual([0, expect.stringMatching(/TTFT/)]);
    await server.stop();
  });

  test("a port that is taken ends the start with 1", async () => {
    const server = await serveWisp([]);
    const { port } = new URL(server.url);
    const { code, stderr } = await wisp(["launch_server", "--port", port]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`127.0.0.1:${port}`)]);
    await server.stop();
  });
});

describe("wisp doctor", () => {
  test("reports what works, as text and as JSON, and ends with 0", async () => {
    const text = await wisp(["doctor"]);
    expect([text.code, text.stdout], text.stderr).toEqual([0, expect.stringMatching(/Adapter/)]);
    const json = await wisp(["doctor", "--json"]);
    expect(json.code).toBe(0);
    expect(JSON.parse(json.stdout)).toHaveProperty("adapter");
  });

  test("ends with 1 where no adapter works", async () => {
    const { code, stdout } = await wisp(["doctor", "--adapter", "gpu"]);
    // On a machine with a GPU that is the adapter, and all is well.
    if (code === 0) expect(stdout).not.toContain("llvmpipe");
    else expect([code, stdout]).toEqual([1, expect.stringContaining("No adapter works")]);
  });
});

describe("ranks", () => {
  const lack = lackOfMpi();
  tellLack(lack);

  test.skipIf(lack !== undefined)("build-mpi builds once, and check_ranks uses it", async () => {
    const env = { XDG_CACHE_HOME: scratch("mpi") };
    const built = await wisp(["build-mpi"], { env });
    expect([built.code, built.stdout], built.stderr).toEqual([
      0,
      expect.stringMatching(/^The library of ranks over MPI \(built by \S+\): \S+\.so\n$/),
    ]);
    expect((await wisp(["build-mpi"], { env })).stdout).toContain("(was built already by ");
    const { code, stdout, stderr } = await wisp(["check_ranks", "--tp", "2"], { env });
    expect([code, stdout], stderr).toEqual([
      0,
      expect.stringMatching(/^Exchanges between 2 ranks/),
    ]);
    expect(stdout).toMatch(/^ +2097152 +\d+$/m);
  });

  test("without a compiler both say what to install", async () => {
    const env = { WISP_MPICC: "/no/mpicc", XDG_CACHE_HOME: scratch("none") };
    for (const command of ["build-mpi", "check_ranks"]) {
      const { code, stderr } = await wisp([command], { env });
      expect([code, stderr]).toEqual([1, expect.stringContaining("apt-get install gcc libmpich")]);
    }
  });

  test.skipIf(lack !== undefined)("a machine that never comes ends the start with 4", async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const meeting = ["--nnodes", "2", "--dist-init-addr", address, "--dist-timeout", "0.5"];
    const first = await wisp(["check_ranks", ...meeting]);
    expect([first.code, first.stderr]).toEqual([
      4,
      "Cannot start without node 1: not there 0.5 s after the start of node 0\n",
    ]);
  });
});

describe("other commands", () => {
  test("compile_kernels tells what it compiled", async () => {
    const { code, stdout, stderr } = await wisp(["compile_kernels", "--context-length", "512"]);
    expect([code, stdout], stderr).toEqual([0, expect.stringMatching(/Compiled \d+ pipelines/)]);
  });

  test("inspect tells how large a model is", async () => {
    const folder = join(shipped(), "node_modules", "wisp-llm", "examples", "tiny-deepseek-v3");
    const { code, stdout } = await wisp(["inspect", folder, "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ architecture: "DeepseekV3ForCausalLM" });
  });

  test("simulate predicts what a model does on devices that are not here", async () => {
    const folder = join(shipped(), "node_modules", "wisp-llm", "examples", "tiny-deepseek-v3");
    const demand = ["--input-tokens", "8", "--output-tokens", "8", "--tp", "2", "--json"];
    const { code, stdout, stderr } = await wisp(["simulate", "--model", folder, ...demand]);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      devices: 2,
      decode: [1, 8, 32, 128].map((batch) => ({ batch })),
    });
  });

  test("check-schema tells what a schema means", async () => {
    const file = join(scratch("schema"), "schema.json");
    writeFileSync(file, '{"type": "object", "required": ["a"], "propertes": {}}');
    const { code, stdout } = await wisp(["check-schema", file]);
    expect([code, stdout]).toEqual([0, expect.stringContaining('did you mean "properties"?')]);
  });

  test.skipIf(process.env.WISP_TEST_FULL !== "1")("tune keeps what it measured", async () => {
    const output = join(scratch("tuning"), "tunings.json");
    const args = ["tune", "--shapes", "128x128", "--dtypes", "bf16", "--output", output];
    const { code, stdout, stderr } = await wisp(args);
    expect([code, stdout], stderr).toEqual([0, expect.stringContaining(`Kept in ${output}`)]);
  });

  test.each([
    [["--version"], 0, /^\d+\.\d+\.\d+\n$/],
    [["--help"], 0, /^Usage: wisp COMMAND/],
    [["tune", "--help"], 0, /^Usage: wisp tune/],
  ])("wisp %j", async (args, code, text) => {
    const ended = await wisp(args);
    expect(ended).toEqual({ code, stdout: expect.stringMatching(text), stderr: "" });
  });

  test.each([
    [[], "launch_server"],
    [["tune", "--shapes", "x"], "--shapes"],
    [["generate", "a", "b"], '"b"'],
    [["launch_server", "--prot", "1"], "--port"],
    [["check_ranks", "--nnodes", "2"], "--dist-init-addr"],
  ])("wisp %j ends with 2", async (args, message) => {
    const ended = await wisp(args);
    expect(ended).toEqual({ code: 2, stdout: "", stderr: expect.stringContaining(message) });
  });
});

describe("as a library in Node", () => {
  test("all three entries load, and the first two answer a chat", async () => {
    const { code, stdout, stderr } = await program(`
      import { Engine } from "wisp-llm";
      import { defaultModelPath, openDevice, openFolder } from "wisp-llm/node";
      import { loadWorkerEngine } from "wisp-llm/browser";
      const { device } = await openDevice();
      const engine = await Engine.load(await openFolder(defaultModelPath()), { device });
      const request = {
        messages: [{ role: "user", content: "Who are you?" }],
        sampling: { temperature: 0, maxNewTokens: 12 },
      };
      for await (const { text } of engine.generate(request)) process.stdout.write(text);
      console.log(typeof loadWorkerEngine);
      await engine.close();
      process.exit(0);
    `);
    expect([code, stdout], stderr).toEqual([
      0,
      expect.stringMatching(new RegExp(`^${ANSWER}.*function\n$`)),
    ]);
  });
});

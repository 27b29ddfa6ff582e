/** Ranks of one process that are threads: their answers, and what becomes of them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeAll, expect, test } from "vitest";
import { adapterName, type ServingWisp, scratch, serveWisp, stopAll } from "../support/wisp.ts";

/**
 * What a server begins with, and its threads: behind a signal and so many submissions rank 1 loses its
 * device, or fails. Variables of the process are those of its threads.
 */
const STRIKING = `
  import { syncBuiltinESMExports } from "node:module";
  import threads from "node:worker_threads";
  if (threads.isMainThread) {
    const { Worker } = threads;
    threads.Worker = class extends Worker {
      constructor(url, options) {
        const isRank = String(url).includes("rank_thread");
        super(url, isRank ? { ...options, execArgv: ["--import", import.meta.url] } : options);
      }
    };
    syncBuiltinESMExports();
    process.on("SIGUSR2", () => {
      process.env.STRIKE = "40";
      console.error("Rank 1 is about to be struck");
    });
  } else if (threads.workerData?.rank === 1) {
    const { GPUAdapter, GPUQueue } = (await import("webgpu")).globals;
    const { requestDevice } = GPUAdapter.prototype;
    const { submit } = GPUQueue.prototype;
    let newest;
    GPUAdapter.prototype.requestDevice = async function (...given) {
      if (process.env.HOW === "refuse") throw new Error("there is no room");
      newest = await requestDevice.apply(this, given);
      return newest;
    };
    GPUQueue.prototype.submit = function (...given) {
      submit.apply(this, given);
      const left = Number(process.env.STRIKE ?? 0) - 1;
      if (left < 0) return;
      if (left > 0) process.env.STRIKE = String(left);
      else delete process.env.STRIKE;
      if (left === 0 && process.env.HOW === "lose") newest.destroy();
      if (left === 0 && process.env.HOW === "fail") {
        setImmediate(() => {
          throw new Error("it is struck");
        });
      }
    };
  }`;
/** Tokens: more steps than pass before the strike. */
const LENGTH = 40;
const SHARED = ["--adapter", adapterName(), "--max-total-tokens", "4096"];
/** Tokens of an answer that takes longer than a signal to come. */
const LONG = 1900;

let file: string;
beforeAll(() => {
  file = join(scratch("striking"), "striking.mjs");
  writeFileSync(file, STRIKING);
});
afterEach(stopAll);

async function serve(how: string, ...more: readonly string[]): Promise<ServingWisp> {
  const server = await serveWisp([...SHARED, "--tp-size", "2", ...more], {
    env: {
      ...{ WISP_RANK_THREADS: "1", HOW: how },
      NODE_OPTIONS: `--import ${pathToFileURL(file).href}`,
    },
  });
  await server.sees(/^Ready/m);
  return server;
}

function ask(server: ServingWisp): Promise<Response> {
  const sampling_params = { temperature: 0, max_new_tokens: LENGTH, ignore_eos: true };
  return server.post("/generate", { text: "Once upon a time", sampling_params });
}

async function tokensOf(response: Response): Promise<readonly number[]> {
  expect(response.status, await response.clone().text()).toBe(200);
  return ((await response.json()) as { readonly output_ids: readonly number[] }).output_ids;
}

async function strike(server: ServingWisp): Promise<void> {
  server.process.kill("SIGUSR2");
  await server.sees(/Rank 1 is about to be struck/);
}

async function stateOf(server: ServingWisp): Promise<Readonly<Record<string, unknown>>> {
  const info = await (await server.get("/get_server_info")).json();
  return (info as { readonly internal_states: readonly [Record<string, unknown>] })
    .internal_states[0];
}

test("ranks that are threads answer what one rank does, also behind a device that is lost", async () => {
  const [alone, server] = await Promise.all([serveWisp(SHARED), serve("lose")]);
  const want = await tokensOf(await ask(alone));
  await alone.stop();
  expect(server.output()).toMatch(/^Ranks: 2 share the model on threads of this process/m);
  expect(server.output()).toMatch(/^TP1 Memory: /m);
  expect(await tokensOf(await ask(server))).toEqual(want);
  const ranks = [0, 1].map((tp_rank) => expect.objectContaining({ tp_rank }));
  expect(await stateOf(server)).toMatchObject({ ranks, num_recoveries: 0 });
  await strike(server);
  expect(await tokensOf(await ask(server))).toEqual(want);
  expect(await stateOf(server)).toMatchObject({ num_recoveries: 1 });
  expect(server.output()).toMatch(/The device is lost \(.*rank 1 has no part of it/);
  expect((await server.stop()).code).toBe(0);
});

test("a thread that fails ends its group, and --restart starts it again", async () => {
  const server = await serve("fail", "--restart");
  const want = await tokensOf(await ask(server));
  await strike(server);
  const refused = await ask(server);
  expect([refused.status, await refused.text()]).toEqual([
    503,
    expect.stringContaining("Cannot go on without rank 1, which has left its group: it is struck"),
  ]);
  await server.sees(/The group is there again/);
  expect(await tokensOf(await ask(server))).toEqual(want);
  expect(await stateOf(server)).toMatchObject({ num_restarts: 1 });
  expect((await server.stop()).code).toBe(0);
});

test("a thread that fails ends a server without --restart, with 3", async () => {
  const server = await serve("fail");
  await strike(server);
  expect((await ask(server)).status).toBe(503);
  const { code, stderr } = await server.stop();
  expect([code, stderr]).toEqual([3, expect.stringContaining("left its group: it is struck")]);
});

test("a second signal ends ranks that compute, with 143", async () => {
  const server = await serve("");
  const sampling_params = { temperature: 0, max_new_tokens: LONG, ignore_eos: true };
  const asked = server
    .post("/generate", { text: "Once", sampling_params, stream: true })
    .then((response) => response.text())
    .catch(() => "");
  await server.sees(/Decode batch/);
  server.process.kill("SIGTERM");
  await server.sees(/Stopping: running requests/);
  expect((await server.stop()).code).toBe(143);
  await asked;
});

test("where a thread opens no device, one thread has all ranks, and the log says why", async () => {
  const server = await serve("refuse");
  expect(server.output()).toMatch(/^Ranks: one thread has all of them, as .*there is no room/m);
  expect(server.output()).toMatch(/^Ranks: 2 share the model on this adapter/m);
  expect(await tokensOf(await ask(server))).toHaveLength(LENGTH);
  expect((await server.stop()).code).toBe(0);
});

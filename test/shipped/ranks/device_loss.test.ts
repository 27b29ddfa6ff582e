/**
 * The installed program on two ranks that are processes, of which the second one loses its device in the
 * middle of an answer: what clients get, however long another device takes to come.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { ranksOf } from "../support/struck_group.ts";
import { adapterName, type ServingWisp, scratch, serveWisp, stopAll } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);
const isFull = process.env.WISP_TEST_FULL === "1";

/**
 * What rank processes begin with: behind a signal and so many submissions the newest device is destroyed.
 * The second device of rank 1 comes late.
 */
const LOSING = `
  if (process.argv.some((one) => one.includes("rank_process"))) {
    const { GPUAdapter, GPUQueue } = (await import("webgpu")).globals;
    const { requestDevice } = GPUAdapter.prototype;
    const { submit } = GPUQueue.prototype;
    let [newest, opened, left] = [undefined, 0, 0];
    GPUAdapter.prototype.requestDevice = async function (...given) {
      opened += 1;
      const isLate = opened > 1 && process.env.PMI_RANK === "1";
      if (isLate) await new Promise((resolve) => setTimeout(resolve, Number(process.env.LATE)));
      newest = await requestDevice.apply(this, given);
      return newest;
    };
    GPUQueue.prototype.submit = function (...given) {
      submit.apply(this, given);
      if (left > 0 && --left === 0) newest.destroy();
    };
    process.on("SIGUSR2", () => {
      left = 40;
      console.error("Rank " + process.env.PMI_RANK + " is about to lose its device");
    });
  }`;
/** Tokens: many more steps than pass before the loss. */
const LENGTH = 120;

let file: string;
beforeAll(() => {
  if (lack !== undefined) return;
  file = join(scratch("losing"), "losing.mjs");
  writeFileSync(file, LOSING);
});
afterEach(stopAll);

/** @param late Seconds after which rank 1 has another device. */
async function serve(late: number, timeout: number): Promise<ServingWisp> {
  const server = await serveWisp(
    [
      ...["--adapter", adapterName(), "--context-length", "256", "--max-total-tokens", "512"],
      ...["--tp-size", "2", "--nnodes", "1", "--dist-timeout", `${timeout}`],
    ],
    // A launcher starts ranks with the variables that it has.
    { env: { NODE_OPTIONS: `--import ${pathToFileURL(file).href}`, LATE: `${1000 * late}` } },
  );
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

/** Makes rank 1 lose its device in the next answer. */
async function lose(server: ServingWisp): Promise<void> {
  process.kill(ranksOf(server.process.pid!)[1]!, "SIGUSR2");
  await server.sees(/Rank 1 is about to lose its device/);
}

async function recoveriesOf(server: ServingWisp): Promise<unknown> {
  const info = await (await server.get("/get_server_info")).json();
  const { internal_states } = info as {
    readonly internal_states: readonly [{ readonly num_recoveries: unknown }];
  };
  return internal_states[0].num_recoveries;
}

describe.skipIf(lack !== undefined)("a rank process whose device is lost", () => {
  const cases = [
    ["at once", 0, 300],
    // Longer than an exchange waits while requests run.
    ["36 s later", 36, 90],
  ] as const;
  test.each(isFull ? cases : cases.slice(0, 1))(
    "goes on with another one, there %s",
    async (_, late, timeout) => {
      const server = await serve(late, timeout);
      const want = await tokensOf(await ask(server));
      expect(want).toHaveLength(LENGTH);
      expect(await recoveriesOf(server)).toBe(0);
      await lose(server);
      expect(await tokensOf(await ask(server))).toEqual(want);
      expect(await recoveriesOf(server)).toBe(1);
      expect(server.output()).toMatch(/The device is lost \(.*rank 1 has no part of it/);
      expect(server.output()).toMatch(/^TP1 Memory: [\s\S]*^TP1 Memory: /m);
      expect((await server.stop()).code).toBe(0);
    },
  );

  test.runIf(isFull)("is named once --dist-timeout is over, and the group ends", async () => {
    const server = await serve(45, 15);
    await tokensOf(await ask(server));
    await lose(server);
    const response = await ask(server);
    const { error } = (await response.json()) as { readonly error: { readonly message: string } };
    const waited = expect.stringContaining("has waited 15 s for rank 1");
    expect([response.status, error.message]).toEqual([503, waited]);
    const { code, stderr } = await server.stop();
    expect([code, stderr]).toEqual([3, waited]);
  });
});

/** Ranks where MPI, or what calls it, is not there. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { adapterName, scratch, serveWisp, stopAll, wisp } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);
afterAll(stopAll);

const SHARED = ["--adapter", adapterName(), "--random-seed", "7", "--context-length", "512"];

describe("without MPI", () => {
  const env = { WISP_MPICC: "/no/mpicc", XDG_CACHE_HOME: scratch("none") };
  const start = (...args: string[]) =>
    wisp(["launch_server", "--port", "0", "--model-path", "./nowhere", "--tp-size", "2", ...args], {
      env,
    });

  test("one machine has all ranks in one process, and says why", async () => {
    const { code, stderr } = await start("--nnodes", "1");
    expect([code, stderr]).toEqual([1, expect.stringContaining("Cannot load ./nowhere: there is")]);
    expect(stderr).toMatch(/^Ranks: one process has all of them, as .*\/no\/mpicc/);
  });

  test("such a server answers", async () => {
    const server = await serveWisp([...SHARED, "--tp-size", "2", "--nnodes", "1"], { env });
    expect(server.output()).toMatch(/^Ranks: one process has all of them, as .*\/no\/mpicc/m);
    expect(server.output()).toMatch(/^Ranks: 2 share the model on t/m);
    const sampling_params = { max_new_tokens: 4, temperature: 0, ignore_eos: true };
    const answer = await server.post("/generate", { text: "Hello", sampling_params });
    const { output_ids } = (await answer.json()) as { readonly output_ids: readonly number[] };
    expect([answer.status, output_ids.length]).toEqual([200, 4]);
    expect((await server.stop()).code).toBe(0);
  });

  test("several machines say what to install", async () => {
    const { code, stderr } = await start("--nnodes", "2", "--dist-init-addr", "127.0.0.1:1");
    expect([code, stderr]).toEqual([1, expect.stringContaining("apt-get install gcc libmpich")]);
  });
});

describe.skipIf(lack !== undefined)("without koffi, which npm may leave out", () => {
  /** An installation in which nothing finds it. */
  const withoutKoffi = () => {
    const hook = join(scratch("koffi"), "without.mjs");
    const loader = `export const resolve = (name, context, next) => {
      if (name === "koffi") throw new Error("Cannot find package koffi");
      return next(name, context);
    };`;
    const url = JSON.stringify(`data:text/javascript,${encodeURIComponent(loader)}`);
    writeFileSync(hook, `import { register } from "node:module"; register(${url});`);
    return { env: { NODE_OPTIONS: `--import=${hook}` } };
  };

  test("check_ranks starts none, and says once what to install", async () => {
    const { code, stderr } = await wisp(["check_ranks"], withoutKoffi());
    const message = /^Cannot use ranks over MPI: [^\n]*; npm install koffi brings it\n$/;
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
  });

  test("one machine has all ranks in one process, and says why", async () => {
    const nowhere = ["--model-path", "./nowhere", "--tp-size", "2", "--nnodes", "1"];
    const { code, stderr } = await wisp(
      ["launch_server", "--port", "0", ...nowhere],
      withoutKoffi(),
    );
    expect([code, stderr]).toEqual([1, expect.stringContaining("Cannot load ./nowhere: there is")]);
    expect(stderr).toMatch(/^Ranks: one process has all of them, as .*npm install koffi/);
  });
});

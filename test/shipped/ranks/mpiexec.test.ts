/** The installed program started by MPICH's mpiexec, each process of which is a rank of one server. */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isAlive, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import type { Chat } from "../support/server.ts";
import {
  adapterName,
  type ServingWisp,
  scratch,
  serveWisp,
  startWisp,
  stopAll,
  wisp,
} from "../support/wisp.ts";

const MPIEXEC = ["mpiexec.hydra", "mpiexec"].find(
  (name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
);
const lack = lackOfMpi() ?? (MPIEXEC === undefined ? "MPICH has no mpiexec here" : undefined);
tellLack(lack);

const launcher = (ranks: number) => [MPIEXEC!, "-n", `${ranks}`];
const SHARED = [
  ...["--adapter", adapterName(), "--context-length", "256", "--max-total-tokens", "512"],
];

let alone: ServingWisp;
let group: ServingWisp;

beforeAll(async () => {
  if (lack !== undefined) return;
  [alone, group] = await Promise.all([
    serveWisp(SHARED),
    serveWisp(SHARED, { launcher: launcher(2) }),
  ]);
});
afterAll(stopAll);

async function answerOf(server: ServingWisp): Promise<unknown> {
  const messages = [{ role: "user", content: "Who are you?" }];
  const body = { messages, temperature: 0, max_tokens: 12, logprobs: true };
  const response = await server.post("/v1/chat/completions", body);
  expect(response.status).toBe(200);
  return ((await response.json()) as Chat).choices;
}

/** The process itself, and all that it and those have started. */
function treeOf(pid: number): readonly number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  const children = text === "" ? [] : text.split(" ").map(Number);
  return [pid, ...children.flatMap(treeOf)];
}

const isRankOne = (pid: number) =>
  readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes("PMI_RANK=1");

describe.skipIf(lack !== undefined)("ranks that mpiexec has started", () => {
  test("answer a chat as one rank does", async () => {
    expect(await answerOf(group)).toEqual(await answerOf(alone));
    expect(group.output()).toContain("Ranks: MPICH's mpiexec has started 2 of them");
    const { tp_size } = (await (await group.get("/get_server_info")).json()) as { tp_size: number };
    expect(tp_size).toBe(2);
  });

  test("end in order with the server that is told to", async () => {
    const processes = treeOf(group.process.pid!);
    // mpiexec and its proxy, two of the program, the rank beside the server.
    expect(processes.length).toBeGreaterThanOrEqual(5);
    expect(await group.stop("SIGINT")).toMatchObject({ code: 0 });
    await until(() => expect(processes.filter(isAlive)).toEqual([]));
    expect(group.output()).toContain("Stopping: running requests have");
    expect(group.output()).not.toMatch(/BAD TERMINATION|Cannot/);
  });

  test("of which one freezes as it starts wait for --dist-timeout, and all end", async () => {
    // Only the rank beside the server has a channel of Node's to say by which adapter it has.
    const hook = join(scratch("freeze"), "freeze.mjs");
    writeFileSync(
      hook,
      `const send = process.send?.bind(process);
      if (send) process.send = (message, ...rest) => {
        const sent = send(message, ...rest);
        if (message.message?.method === "adapter") process.kill(process.pid, "SIGSTOP");
        return sent;
      };`,
    );
    const args = ["launch_server", "--port", "0", ...SHARED, "--dist-timeout", "15"];
    const env = { NODE_OPTIONS: `--import=${hook}` };
    const frozen = startWisp(args, { launcher: launcher(2), env });
    await frozen.sees(/^Adapter: /m);
    const processes = treeOf(frozen.process.pid!);
    try {
      const [code] = await frozen.closed;
      expect(code).not.toBe(0);
      expect(frozen.output()).toContain("has waited 15 s");
      await until(() => expect(processes.filter(isAlive)).toEqual([]));
    } finally {
      for (const pid of processes.filter(isAlive)) process.kill(pid, "SIGKILL");
    }
  });

  test("of which one is killed end at once, and so do streams", async () => {
    const env = { SVC_SET_CPU_AFFINITY: "true" };
    const doomed = await serveWisp(SHARED, { launcher: launcher(2), env });
    expect(doomed.output()).toContain("SVC_SET_CPU_AFFINITY has no effect here: the launcher");
    const processes = treeOf(doomed.process.pid!);
    const stream = await doomed.post("/generate", {
      ...{ text: "Hello", stream: true },
      sampling_params: { max_new_tokens: null, ignore_eos: true },
    });
    const [begun, closed] = [performance.now(), once(doomed.process, "close")];
    const ended = stream.text().catch(() => undefined);
    process.kill(processes.find(isRankOne)!, "SIGKILL");
    expect((await closed)[0]).not.toBe(0);
    await until(() => expect(processes.filter(isAlive)).toEqual([]));
    // Well under a second where nothing else runs; ranks that had to find it out would wait 30.
    expect(performance.now() - begun).toBeLessThan(15_000);
    await ended;
  });

  test.each([
    [["--tp-size", "3"], "Cannot use option --tp-size 3: MPICH's mpiexec has started 2 ranks"],
    [["--restart"], "Cannot use option --restart: MPICH's mpiexec starts ranks once"],
    [["--sleep-idle-seconds", "5"], "Cannot use option --sleep-idle-seconds with --nnodes"],
  ])("with %j refuse it", async (args, message) => {
    const { code, stderr } = await wisp(["launch_server", "--port", "0", ...args], {
      launcher: launcher(2),
    });
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test("of a group of one are the server that one rank is", async () => {
    const single = await serveWisp(SHARED, { launcher: launcher(1) });
    expect(single.output()).not.toContain("Ranks:");
    await single.stop();
  });
});

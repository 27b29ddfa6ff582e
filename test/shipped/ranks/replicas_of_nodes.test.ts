/**
 * The installed server with replicas on two machines: what clients see of one whose rank is killed, of a
 * machine that is lost or frozen, and of the other meanwhile.
 */
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort, isAlive, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import { answerOf, statesOf } from "../support/replica_server.ts";
import { ranksOf } from "../support/struck_group.ts";
import { adapterName, type ServingWisp, serveWisp, stopAll, wisp } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);

/** Each machine has a replica of one rank, which is started again. */
let first: ServingWisp;
let second: ServingWisp;
let shared: readonly string[];

const startSecond = () =>
  serveWisp([...shared, "--node-rank", "1"], { listens: /Health of node 1 at (http:\/\/\S+);/ });

beforeAll(async () => {
  if (lack !== undefined) return;
  shared = [
    ...["--adapter", adapterName(), "--context-length", "2048", "--max-total-tokens", "2048"],
    ...["--dp-size", "2", "--nnodes", "2", "--restart"],
    ...["--dist-init-addr", `127.0.0.1:${await freePort()}`],
  ];
  [first, second] = await Promise.all([
    serveWisp([...shared, "--node-rank", "0", "--enable-metrics"]),
    startSecond(),
  ]);
});
afterAll(stopAll);

/** A request to the second machine that runs, and what is answered to it. */
async function running(): Promise<{ readonly asked: Promise<readonly [number, string]> }> {
  const endless = { max_new_tokens: null, ignore_eos: true };
  const body = { text: "Hello", sampling_params: endless, data_parallel_rank: 1 };
  const asked = first.post("/generate", body).then(async (response) => {
    return [response.status, await response.text()] as const;
  });
  await until(async () => expect((await statesOf(first))[1]!.num_running_reqs).toBe(1));
  return { asked };
}

/** Requests go to the first machine while the second has none that answers. */
async function requireFirst(want: readonly number[]): Promise<void> {
  await until(async () => {
    expect((await statesOf(first))[1]).toMatchObject({ healthy: false, recovering: true });
  });
  expect((await first.get("/health")).status).toBe(200);
  for (let i = 0; i < 2; i++) {
    expect(await answerOf(first)).toMatchObject({ output_ids: want, meta_info: { dp_rank: 0 } });
  }
}

async function requireBack(want: readonly number[]): Promise<void> {
  await until(async () => expect((await statesOf(first))[1]).toMatchObject({ healthy: true }));
  expect(await answerOf(first, 1)).toMatchObject({ output_ids: want, meta_info: { dp_rank: 1 } });
}

describe.skipIf(lack !== undefined)("replicas on two machines", () => {
  test("answer alike, by turns, and are told of alike", async () => {
    const answers = [await answerOf(first), await answerOf(first)];
    expect(answers.map(({ meta_info }) => meta_info.dp_rank).toSorted()).toEqual([0, 1]);
    expect(answers[0]!.output_ids).toEqual(answers[1]!.output_ids);
    expect(first.output()).toMatch(/^Replicas: 2 answer different .* 1 on each of 2 machines/m);
    expect(first.output()).not.toMatch(/^DP1 Memory: /m);
    expect(second.output()).toMatch(/^DP1 Memory: /m);
    await until(async () => expect((await second.get("/health")).status).toBe(200));
    const load = (await (await first.get("/get_load")).json()) as { readonly loads: object[] };
    expect(load.loads).toMatchObject([{ dp_rank: 0 }, { dp_rank: 1 }]);
    expect(await (await first.get("/metrics")).text()).toMatch(/dp_rank="1"/);
  });

  test("go on where a rank is killed, until it is there again", async () => {
    const { output_ids: want } = await answerOf(first);
    const { asked } = await running();
    process.kill(ranksOf(second.process.pid!)[0]!, "SIGKILL");
    expect(await asked).toEqual([503, expect.stringContaining("Cannot go on without rank 0")]);
    expect((await first.get("/health")).status).toBe(200);
    await requireBack(want);
    expect((await statesOf(first)).map(({ num_restarts }) => num_restarts)).toEqual([0, 1]);
  });

  test("go on where a machine is lost, until it has started again", async () => {
    const { output_ids: want } = await answerOf(first);
    const { asked } = await running();
    const [rank] = ranksOf(second.process.pid!);
    second.process.kill("SIGKILL");
    expect(await asked).toEqual([503, expect.stringContaining("node 1: its connection has ended")]);
    await requireFirst(want);
    await until(() => expect(isAlive(rank!)).toBe(false));
    second = await startSecond();
    await requireBack(want);
  });

  test("go on where a machine is frozen: it counts as lost, and comes again", async () => {
    const { output_ids: want } = await answerOf(first);
    const { asked } = await running();
    const [rank] = ranksOf(second.process.pid!);
    second.process.kill("SIGSTOP");
    expect(await asked).toEqual([503, expect.stringContaining("no sign of life for 6 s")]);
    await requireFirst(want);
    second.process.kill("SIGCONT");
    await requireBack(want);
    expect(second.output()).toMatch(/Cannot go on without node 0: /);
    expect(isAlive(rank!)).toBe(false);
  });

  test("go on where a machine is stopped: what it was asked is answered, and it comes again", async () => {
    const { output_ids: want } = await answerOf(first);
    const sampling_params = { max_new_tokens: null, ignore_eos: true, temperature: 0 };
    const body = { text: "The sea", sampling_params, data_parallel_rank: 1 };
    const asked = first.post("/generate", { ...body, rid: "runs" });
    await until(async () => expect((await statesOf(first))[1]!.num_running_reqs).toBe(1));
    const ended = once(second.process, "close");
    second.process.kill("SIGTERM");
    await until(async () => expect((await statesOf(first))[1]!.draining).toBe(true));
    expect((await second.get("/health")).status).toBe(503);
    for (let i = 0; i < 2; i++) {
      expect(await answerOf(first)).toMatchObject({ output_ids: want, meta_info: { dp_rank: 0 } });
    }
    const refused = await first.post("/generate", { ...body, sampling_params: {} });
    expect([refused.status, await refused.text()]).toEqual([
      503,
      expect.stringContaining("node 1, which has the replica, is being stopped"),
    ]);
    expect(second.process.exitCode).toBeNull();
    await first.post("/abort_request", { rid: "runs" });
    const answer = await asked;
    const { output_ids } = (await answer.json()) as { readonly output_ids: readonly number[] };
    expect(answer.status).toBe(200);
    expect(output_ids.slice(0, want.length)).toEqual(want);
    expect(await ended).toEqual([0, null]);
    await requireFirst(want);
    expect(first.output()).toContain("node 1 is stopped");
    second = await startSecond();
    await requireBack(want);
  });

  test("refuse a machine with other options", async () => {
    const place = ["--node-rank", "1", "--port", "0"];
    const other = await wisp(["launch_server", ...shared, ...place, "--page-size", "2"]);
    expect(other.code).toBe(1);
    expect(other.stderr).toContain(
      "Cannot start nodes with different options: --page-size is 1 on node 0, 2 on node 1",
    );
    expect((await first.get("/health")).status).toBe(200);
  });

  test("end together, with 0", async () => {
    const ranks = [...ranksOf(first.process.pid!), ...ranksOf(second.process.pid!)];
    expect(ranks).toHaveLength(2);
    const ended = once(second.process, "close");
    expect((await first.stop()).code).toBe(0);
    expect(await ended).toEqual([0, null]);
    expect(ranks.filter(isAlive)).toEqual([]);
  });
});

/**
 * The installed server with replicas whose ranks are processes: what clients see of one that is killed,
 * and of the other meanwhile.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isAlive, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import { answerOf, statesOf } from "../support/replica_server.ts";
import { ranksOf } from "../support/struck_group.ts";
import { adapterName, type ServingWisp, serveWisp, stopAll } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);

/** Two replicas with a rank each, which are started again. */
let server: ServingWisp;

beforeAll(async () => {
  if (lack !== undefined) return;
  server = await serveWisp([
    ...["--adapter", adapterName(), "--context-length", "256", "--max-total-tokens", "512"],
    ...["--dp-size", "2", "--nnodes", "1", "--restart"],
  ]);
});
afterAll(stopAll);

describe.skipIf(lack !== undefined)("replicas that are processes", () => {
  test("answer alike, by turns", async () => {
    const answers = [await answerOf(server), await answerOf(server)];
    expect(answers.map(({ meta_info }) => meta_info.dp_rank).toSorted()).toEqual([0, 1]);
    expect(answers[0]!.output_ids).toEqual(answers[1]!.output_ids);
    expect(server.output()).toMatch(/^DP1 Memory: /m);
  });

  test("of which one is killed: its requests fail, all others go to the other, until it is back", async () => {
    const { output_ids: want } = await answerOf(server);
    const endless = { max_new_tokens: null, ignore_eos: true };
    const body = { text: "Hello", sampling_params: endless, data_parallel_rank: 1 };
    const running = server.post("/generate", body);
    await until(async () => expect((await statesOf(server))[1]!.num_running_reqs).toBe(1));
    const [kept, killed] = ranksOf(server.process.pid!) as [number, number];
    process.kill(killed, "SIGKILL");
    const failed = await running;
    expect([failed.status, await failed.text()]).toEqual([503, expect.stringContaining("rank 0")]);
    expect((await statesOf(server))[1]).toMatchObject({ healthy: false, recovering: true });
    expect((await server.get("/health")).status).toBe(200);
    for (let i = 0; i < 3; i++) {
      expect(await answerOf(server)).toMatchObject({ output_ids: want, meta_info: { dp_rank: 0 } });
    }
    const refused = await server.post("/generate", body);
    expect([refused.status, await refused.text()]).toEqual([
      503,
      expect.stringContaining("its ranks are being started again"),
    ]);
    await until(async () => expect((await statesOf(server))[1]).toMatchObject({ healthy: true }));
    expect(await answerOf(server, 1)).toMatchObject({
      output_ids: want,
      meta_info: { dp_rank: 1 },
    });
    expect((await statesOf(server)).map(({ num_restarts }) => num_restarts)).toEqual([0, 1]);
    expect(server.output()).toMatch(/DP1 The group has ended \(Cannot go on without rank 0/);
    expect(ranksOf(server.process.pid!)[0]).toBe(kept);
  });

  test("end together, with 0", async () => {
    const ranks = ranksOf(server.process.pid!);
    expect(ranks).toHaveLength(2);
    expect((await server.stop()).code).toBe(0);
    expect(ranks.filter(isAlive)).toEqual([]);
  });
});

/**
 * A decode server with replicas whose ranks are processes, which take prompts by connections of their
 * own: the answers of one rank, and of the other replica where one is lost.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import { adapterName, type ServingWisp, serveWisp, stopAll } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);

let prefill: ServingWisp;
let decode: ServingWisp;
let bootstrapPort: number;

beforeAll(async () => {
  if (lack !== undefined) return;
  bootstrapPort = await freePort();
  const shared = [
    ...["--adapter", adapterName(), "--context-length", "256", "--max-total-tokens", "512"],
    ...["--disaggregation-bootstrap-port", `${bootstrapPort}`, "--disaggregation-key", "a key"],
  ];
  [prefill, decode] = await Promise.all([
    serveWisp([...shared, "--disaggregation-mode", "prefill"]),
    serveWisp([...shared, "--disaggregation-mode", "decode", "--dp-size", "2", "--nnodes", "1"]),
  ]);
});
afterAll(stopAll);

interface Answer {
  readonly output_ids: readonly number[];
  readonly meta_info: { readonly dp_rank: number };
}

let room = 0;

async function answer(rank?: number): Promise<Answer> {
  room += 1;
  const sampling_params = { temperature: 0, max_new_tokens: 8, ignore_eos: true };
  const body = { text: "The sea, the wind and the weather of the north", sampling_params };
  const where = { bootstrap_host: "127.0.0.1", bootstrap_port: bootstrapPort };
  const whole = { ...body, ...where, bootstrap_room: room };
  const [first, second] = await Promise.all([
    prefill.post("/generate", whole),
    decode.post("/generate", { ...whole, data_parallel_rank: rank }),
  ]);
  const text = await second.text();
  expect([first.status, second.status], text).toEqual([200, 200]);
  return JSON.parse(text) as Answer;
}

async function infoOf(server: ServingWisp) {
  return (await (await server.get("/get_server_info")).json()) as {
    readonly disaggregation: Readonly<Record<string, number>>;
    readonly internal_states: readonly Readonly<Record<string, unknown>>[];
  };
}

describe.skipIf(lack !== undefined)("replicas that decode", () => {
  test("answer alike, each with pages that came to it, and are told of together", async () => {
    const answers = [await answer(), await answer()];
    expect(answers.map(({ meta_info }) => meta_info.dp_rank).toSorted()).toEqual([0, 1]);
    expect(answers[0]!.output_ids).toEqual(answers[1]!.output_ids);
    await until(async () => {
      const { disaggregation } = await infoOf(decode);
      expect(disaggregation).toMatchObject({ rooms: 0, servers: 1, opened: 2, failed: 0 });
      expect(disaggregation.pages).toBeGreaterThan(2);
    });
    expect((await infoOf(prefill)).disaggregation).toMatchObject({ servers: 2, opened: 2 });
  });

  test("of which one is lost: the other goes on", async () => {
    const { output_ids: want } = await answer(0);
    const { pid } = decode.process;
    const ranks = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
    process.kill(Number(ranks[1]), "SIGKILL");
    await until(async () => {
      expect((await infoOf(decode)).internal_states[1]).toMatchObject({ healthy: false });
    });
    for (let i = 0; i < 2; i++) {
      expect(await answer()).toMatchObject({ output_ids: want, meta_info: { dp_rank: 0 } });
    }
  });
});

/**
 * Prefill and decode servers with replicas whose ranks are processes, which meet each other by
 * connections of their own: the answers of one rank, and of the other replica where one is lost.
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
    ...["--dp-size", "2", "--nnodes", "1"],
  ];
  [prefill, decode] = await Promise.all([
    serveWisp([...shared, "--disaggregation-mode", "prefill"]),
    serveWisp([...shared, "--disaggregation-mode", "decode"]),
  ]);
});
afterAll(stopAll);

interface Answer {
  readonly output_ids: readonly number[];
  readonly meta_info: { readonly dp_rank: number };
}

interface Asked {
  /** Which replica of the prefill server, and of the decode server, is to take it. */
  readonly prefillRank?: number;
  readonly rank?: number;
}

let room = 0;

/** @returns What the decode server answers, and which replicas took the request. */
async function answer({ prefillRank, rank }: Asked = {}) {
  room += 1;
  const sampling_params = { temperature: 0, max_new_tokens: 8, ignore_eos: true };
  const body = { text: "The sea, the wind and the weather of the north", sampling_params };
  const where = { bootstrap_host: "127.0.0.1", bootstrap_port: bootstrapPort };
  const whole = { ...body, ...where, bootstrap_room: room };
  const [first, second] = await Promise.all([
    prefill.post("/generate", { ...whole, data_parallel_rank: prefillRank }),
    decode.post("/generate", { ...whole, data_parallel_rank: rank }),
  ]);
  const texts = [await first.text(), await second.text()] as const;
  expect([first.status, second.status], texts.join("\n")).toEqual([200, 200]);
  const [prompt, given] = texts.map((text) => JSON.parse(text) as Answer);
  const { output_ids, meta_info } = given!;
  return { output_ids, ranks: [prompt!.meta_info.dp_rank, meta_info.dp_rank] };
}

async function infoOf(server: ServingWisp) {
  return (await (await server.get("/get_server_info")).json()) as {
    readonly disaggregation: Readonly<Record<string, number>>;
    readonly internal_states: readonly Readonly<Record<string, unknown>>[];
  };
}

/** Kills the process of one of a server's two replicas. */
async function kill(server: ServingWisp, replica: number): Promise<void> {
  const { pid } = server.process;
  const ranks = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  process.kill(Number(ranks[replica]), "SIGKILL");
  await until(async () => {
    expect((await infoOf(server)).internal_states[replica]).toMatchObject({ healthy: false });
  });
}

describe.skipIf(lack !== undefined)("replicas of prefill and decode servers", () => {
  let want: readonly number[];

  test("answer alike, each with pages that came to it, and are told of together", async () => {
    const answers = [await answer(), await answer()];
    // The number of a room says which replicas have it.
    expect(answers.map(({ ranks }) => ranks)).toEqual([
      [1, 1],
      [0, 0],
    ]);
    answers.push(
      await answer({ prefillRank: 1, rank: 0 }),
      await answer({ prefillRank: 0, rank: 1 }),
    );
    expect(answers.slice(2).map(({ ranks }) => ranks)).toEqual([
      [1, 0],
      [0, 1],
    ]);
    want = answers[0]!.output_ids;
    for (const { output_ids } of answers) expect(output_ids).toEqual(want);
    for (const [server, servers] of [
      [prefill, 2],
      [decode, 1],
    ] as const) {
      await until(async () => {
        const { disaggregation } = await infoOf(server);
        expect(disaggregation).toMatchObject({ rooms: 0, servers, opened: 4, failed: 0 });
        expect(disaggregation.pages).toBeGreaterThan(2);
      });
    }
  });

  test("of which one is lost: the others go on", async () => {
    await kill(decode, 1);
    for (let i = 0; i < 2; i++) {
      expect(await answer()).toMatchObject({ output_ids: want, ranks: [expect.any(Number), 0] });
    }
    await kill(prefill, 0);
    for (let i = 0; i < 2; i++) {
      expect(await answer()).toEqual({ output_ids: want, ranks: [1, 0] });
    }
  });
});

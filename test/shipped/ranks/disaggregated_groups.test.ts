/**
 * Prefill and decode servers whose attention groups have ranks that are processes, on two nodes and on
 * one: the answers of one rank, whichever groups compute a prompt and answer.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import { adapterName, type ServingWisp, serveWisp, startWisp, stopAll } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);
afterAll(stopAll);

const SHARED = [
  ...["--adapter", adapterName(), "--random-seed", "7", "--context-length", "256"],
  ...["--chunked-prefill-size", "64", "--max-total-tokens", "1024", "--page-size", "4"],
];

let alone: ServingWisp;
/** Two nodes with a rank each. */
let prefill: ServingWisp;
let member: ReturnType<typeof startWisp>;
/** One node with two ranks. */
let decode: ServingWisp;
let bootstrapPort: number;

beforeAll(async () => {
  if (lack !== undefined) return;
  bootstrapPort = await freePort();
  const groups = [
    ...[...SHARED, "--tp-size", "2", "--dp-size", "2", "--enable-dp-attention"],
    ...["--disaggregation-bootstrap-port", `${bootstrapPort}`, "--gpu-id-step", "0"],
  ];
  const address = `127.0.0.1:${await freePort()}`;
  const nodes = ["--nnodes", "2", "--dist-init-addr", address, "--disaggregation-mode", "prefill"];
  member = startWisp(["launch_server", "--port", "0", ...groups, ...nodes, "--node-rank", "1"]);
  [alone, prefill, decode] = await Promise.all([
    serveWisp(SHARED),
    serveWisp([...groups, ...nodes, "--node-rank", "0"]),
    serveWisp([...groups, "--nnodes", "1", "--disaggregation-mode", "decode"]),
  ]);
});

const LONG = "Tell me about the sea, the wind and the weather of the north. ".repeat(2);
const SAMPLED = { temperature: 0.9, top_k: 40, sampling_seed: 3, repetition_penalty: 1.2 };
const QUESTIONS = [
  { text: LONG, sampling_params: { temperature: 0 } },
  { text: `${LONG}Briefly.`, sampling_params: SAMPLED, return_logprob: true },
  { text: "A number:", sampling_params: { ...SAMPLED, regex: "[0-9]{3}( [a-z]{3})+" } },
  { text: `${LONG}At length.`, sampling_params: SAMPLED },
].map(({ sampling_params, ...rest }) => {
  const params = { max_new_tokens: 10, ignore_eos: true, ...sampling_params };
  return { ...rest, sampling_params: params };
});

interface Answer {
  readonly output_ids: readonly number[];
  readonly meta_info: Readonly<Record<string, unknown>>;
}

async function answerOf(response: Promise<Response>): Promise<Answer> {
  const text = await (await response).text();
  expect((await response).status, text).toBe(200);
  return JSON.parse(text) as Answer;
}

const bitsOf = ({ output_ids, meta_info }: Answer) => ({
  output_ids,
  logprobs: meta_info.output_token_logprobs,
});

/** What both servers answer to a question. */
async function askBoth(body: object, room: number): Promise<readonly Answer[]> {
  const where = { bootstrap_host: "127.0.0.1", bootstrap_port: bootstrapPort };
  const whole = { ...body, ...where, bootstrap_room: room };
  return Promise.all([prefill, decode].map((one) => answerOf(one.post("/generate", whole))));
}

async function infoOf(server: ServingWisp) {
  return (await (await server.get("/get_server_info")).json()) as {
    readonly disaggregation: Readonly<Record<string, number>>;
    readonly internal_states: readonly { readonly num_used_tokens: number }[];
  };
}

describe.skipIf(lack !== undefined)("attention groups that are processes", () => {
  test("share requests with those of another server, and answer what one rank does", async () => {
    const right = await Promise.all(QUESTIONS.map((one) => answerOf(alone.post("/generate", one))));
    const shared = await Promise.all(QUESTIONS.map((one, i) => askBoth(one, i)));
    expect(shared.map(([, answer]) => bitsOf(answer!))).toEqual(right.map(bitsOf));
    // The number of a room says which groups have it.
    const ranks = shared.map((both) => both.map(({ meta_info }) => meta_info.dp_rank));
    expect(ranks).toEqual([0, 1, 0, 1].map((group) => [group, group]));
    // From one group to the other, which may have the prompt in its cache.
    const [first, second] = QUESTIONS as [object, object];
    const crossed = [
      await askBoth({ ...first, data_parallel_rank: 1 }, 8),
      await askBoth(second, 9),
    ];
    expect(crossed.map(([, answer]) => bitsOf(answer!))).toEqual(right.slice(0, 2).map(bitsOf));
    for (const server of [prefill, decode]) {
      await until(async () => {
        const { disaggregation, internal_states } = await infoOf(server);
        expect(disaggregation).toMatchObject({ rooms: 0, servers: 1, opened: 6, failed: 0 });
        expect(disaggregation.pages).toBeGreaterThan(10);
        expect(internal_states.map(({ num_used_tokens }) => num_used_tokens)).toEqual([0, 0]);
      });
    }
  });

  test("end in order", async () => {
    expect((await decode.stop()).code).toBe(0);
    expect((await prefill.stop()).code).toBe(0);
    expect((await member.closed)[0]).toBe(0);
  });
});

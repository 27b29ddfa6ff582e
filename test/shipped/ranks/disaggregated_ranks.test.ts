/**
 * Prefill and decode servers whose ranks are processes, on two nodes and on one: the answers of one
 * rank, and what clients see when a rank is lost.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { lackOfUcx } from "../../support/ucx.ts";
import { until } from "../../support/until.ts";
import { adapterName, type ServingWisp, serveWisp, startWisp, stopAll } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);
afterAll(stopAll);

const SHARED = [
  ...["--adapter", adapterName(), "--random-seed", "7", "--context-length", "512"],
  ...["--chunked-prefill-size", "32", "--max-total-tokens", "2048"],
];
const PAGES = { prefill: ["--page-size", "4"], decode: ["--page-size", "16"] };
const LONG = "Tell me about the sea, the wind and the weather of the north. ".repeat(4);

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
  const shared = [
    ...["--disaggregation-bootstrap-port", `${bootstrapPort}`, "--tp-size", "2"],
    ...["--gpu-id-step", "0", "--disaggregation-key", "of the group"],
  ];
  const address = `127.0.0.1:${await freePort()}`;
  const group = ["--nnodes", "2", "--dist-init-addr", address, "--disaggregation-mode", "prefill"];
  const own = [...SHARED, ...shared];
  const node = [...own, ...PAGES.prefill, ...group, "--node-rank"];
  member = startWisp(["launch_server", "--port", "0", ...node, "1"]);
  [alone, prefill, decode] = await Promise.all([
    serveWisp(SHARED),
    serveWisp([...node, "0"]),
    serveWisp([
      ...[...own, ...PAGES.decode, "--nnodes", "1", "--disaggregation-mode", "decode"],
      "--enable-metrics",
    ]),
  ]);
});

let room = 100;

/** What both servers answer to a request, and the room that it has. */
function askBoth(body: object): readonly [prefill: Promise<Response>, decode: Promise<Response>] {
  room += 1;
  const where = { bootstrap_host: "127.0.0.1", bootstrap_port: bootstrapPort };
  const whole = { ...body, ...where, bootstrap_room: room };
  return [prefill.post("/generate", whole), decode.post("/generate", whole)];
}

interface Answer {
  readonly output_ids: readonly number[];
  readonly meta_info: Readonly<Record<string, unknown>>;
}

async function bitsOf(response: Promise<Response>) {
  const answer = await (await response).text();
  expect((await response).status, answer).toBe(200);
  const { output_ids, meta_info } = JSON.parse(answer) as Answer;
  return { output_ids, logprobs: meta_info.output_token_logprobs };
}

async function roomsOf(server: ServingWisp) {
  const info = (await (await server.get("/get_server_info")).json()) as {
    readonly disaggregation: Readonly<Record<string, number>>;
    readonly internal_states: readonly [{ readonly num_used_tokens: number }];
  };
  return { ...info.disaggregation, used: info.internal_states[0].num_used_tokens };
}

describe.skipIf(lack !== undefined)("prefill and decode by ranks that are processes", () => {
  test("answer what one rank does, together and one after the other", async () => {
    const sampled = { temperature: 0.9, top_k: 40, sampling_seed: 3, repetition_penalty: 1.2 };
    const questions = [
      { text: LONG, sampling_params: { temperature: 0 } },
      { text: `${LONG}Briefly.`, sampling_params: sampled, return_logprob: true },
      { text: "A number:", sampling_params: { ...sampled, regex: "[0-9]{3}( [a-z]{3})+" } },
    ].map(({ sampling_params, ...rest }) => {
      const params = { max_new_tokens: 10, ignore_eos: true, ...sampling_params };
      return { ...rest, sampling_params: params };
    });
    for (let round = 0; round < 2; round++) {
      const right = questions.map((one) => bitsOf(alone.post("/generate", one)));
      const shared = questions.map((one) => {
        const [first, second] = askBoth(one);
        return Promise.all([first.then(({ status }) => status), bitsOf(second)]);
      });
      const wanted = (await Promise.all(right)).map((bits) => [200, bits]);
      expect(await Promise.all(shared)).toEqual(wanted);
    }
    for (const server of [prefill, decode]) {
      await until(async () => {
        const counts = await roomsOf(server);
        expect(counts).toMatchObject({ rooms: 0, servers: 1, opened: 6, failed: 0, used: 0 });
        expect(counts).toMatchObject({ pages: expect.any(Number), transferring: 0 });
      });
    }
    const { pages } = (await roomsOf(decode)) as unknown as { readonly pages: number };
    expect(pages).toBeGreaterThan(20);
    expect(await (await decode.get("/metrics")).text()).toMatch(
      new RegExp(`wisp:kv_transfer_pages_total\\{[^}]*\\} ${pages}\n`),
    );
    expect(prefill.output()).toContain(`decode servers are met at 127.0.0.1:${bootstrapPort}`);
    const way = lackOfUcx() === undefined ? "ucx" : "websocket";
    // A rank's lines come in their own time.
    await prefill.sees(new RegExp(`A decode server has connected, pages go by ${way}`));
  });

  test("refuse what has no room, or a host that they do not know", async () => {
    const body = { text: "Hello" };
    for (const server of [prefill, decode]) {
      const answer = await server.post("/generate", body);
      expect([answer.status, await answer.text()]).toEqual([
        400,
        expect.stringContaining("received without boostrap room id"),
      ]);
    }
    const strange = { ...body, bootstrap_host: "10.9.9.9", bootstrap_room: 5 };
    const answer = await decode.post("/generate", strange);
    expect([answer.status, await answer.text()]).toEqual([
      400,
      expect.stringContaining("the group knows no prefill server at"),
    ]);
  });

  test("of which one is killed end their rooms on the other side, which goes on", async () => {
    const [child] = readFileSync(
      `/proc/${member.process.pid}/task/${member.process.pid}/children`,
      "utf8",
    )
      .trim()
      .split(" ");
    const endless = { max_new_tokens: null, ignore_eos: true, temperature: 0 };
    const where = { bootstrap_host: "127.0.0.1", bootstrap_port: bootstrapPort };
    // Its other half never comes.
    const asked = decode.post("/generate", {
      ...{ text: `Now ${LONG}`, sampling_params: endless, ...where, bootstrap_room: 1 },
    });
    await until(async () => expect(await roomsOf(decode)).toMatchObject({ rooms: 1 }));
    await until(async () => expect(await roomsOf(prefill)).toMatchObject({ awaited: 1 }));
    const began = performance.now();
    process.kill(Number(child), "SIGKILL");
    const answer = await asked;
    expect([answer.status, answer.headers.get("x-wisp-failed-side")]).toEqual([500, "prefill"]);
    expect(await answer.text()).toContain("Cannot go on with room 1: ");
    expect(performance.now() - began).toBeLessThan(15_000);
    await until(async () => {
      const gone = { rooms: 0, servers: 0, used: 0, failed: 1 };
      expect(await roomsOf(decode)).toMatchObject(gone);
    });
    expect((await decode.get("/health")).status).toBe(200);
    expect((await member.closed)[0]).toBe(3);
    expect((await decode.stop()).code).toBe(0);
  });
});

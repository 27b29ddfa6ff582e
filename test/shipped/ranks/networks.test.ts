/**
 * The installed program on two nodes in two networks, which only a cable joins, as two machines have
 * them: the answers of one rank, and the end of both where the cable is cut.
 */
import { afterAll, expect, test } from "vitest";
import {
  cutCable,
  IN_NETWORKS,
  makeNetworks,
  NEAR_HOST,
  removeNetworks,
} from "../../support/mpi/networks.ts";
import { lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";
import { adapterName, program, startWisp, stopAll } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);
afterAll(async () => {
  await stopAll();
  removeNetworks();
});

const SHARED = [
  ...["--adapter", adapterName(), "--random-seed", "7", "--context-length", "2048"],
  ...["--chunked-prefill-size", "32", "--page-size", "4", "--max-total-tokens", "2048"],
];
const DRAFTS = ["--speculative-algorithm", "EAGLE", "--speculative-adaptive", "off"];
/** UCX would find the memory that two nodes on one machine share. */
const env = { UCX_TLS: "tcp,self" };
const PORT = 29_611;
const LISTENS = /Listening on (http:\/\/[^\s"]+)\S*\n/;

interface Asked {
  readonly path: string;
  readonly body: object;
}

/** What a program in a network is answered: of each a status and a text. */
async function ask(launcher: readonly string[], url: string, asked: readonly Asked[]) {
  const text = `
    const answers = await Promise.all(${JSON.stringify(asked)}.map(async ({ path, body }) => {
      const headers = { "content-type": "application/json" };
      const given = { method: "POST", headers, body: JSON.stringify(body) };
      const response = await fetch(${JSON.stringify(url)} + path, given);
      return [response.status, await response.text()];
    }));
    console.log(JSON.stringify(answers));`;
  const { stdout, stderr, code } = await program(text, { launcher: [...launcher] });
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as readonly (readonly [number, string])[];
}

const sampling_params = { max_new_tokens: 12, ignore_eos: true, temperature: 0 };
const sampled = { ...sampling_params, temperature: 0.9, sampling_seed: 3 };
const QUESTIONS: readonly Asked[] = [
  { text: "Tell me about the sea, the wind and the weather. ".repeat(4), sampling_params },
  { text: "Hello", sampling_params: { ...sampled, top_k: 40, repetition_penalty: 1.2 } },
  { text: "A number:", sampling_params: { ...sampled, regex: "[0-9]{3}( [a-z]{3})+" } },
].map((body) => ({ path: "/generate", body: { ...body, return_logprob: true } }));

/** What must be the same. */
const bitsOf = (answers: readonly (readonly [number, string])[]) =>
  answers.map(([status, text]) => {
    const { output_ids, meta_info } = JSON.parse(text);
    return [status, output_ids, meta_info.output_token_logprobs];
  });

/** Starts it, and says where it listens once it is ready. */
async function ready(wisp: ReturnType<typeof startWisp>): Promise<string> {
  await wisp.sees(LISTENS);
  await wisp.sees(/ready/i);
  return LISTENS.exec(wisp.output())![1]!;
}

test.skipIf(lack !== undefined)(
  "two nodes answer as one rank, until their cable is cut",
  async ({ skip }) => {
    if (!(await makeNetworks())) skip("only root may make networks");
    const group = ["--tp-size", "2", "--nnodes", "2", "--dist-init-addr", `${NEAR_HOST}:${PORT}`];
    const nodes = IN_NETWORKS.map((launcher, node) => {
      const place = [...group, "--node-rank", `${node}`];
      const args = ["launch_server", "--port", "30611", ...SHARED, ...DRAFTS, ...place];
      return startWisp(args, { launcher, env });
    });
    const alone = startWisp(["launch_server", "--port", "0", ...SHARED]);
    const [url, own] = await Promise.all([ready(nodes[0]!), ready(alone)]);
    await nodes[1]!.sees(/Ready: the ranks of node 1 are loaded/);
    const want = bitsOf(await ask([], own!, QUESTIONS));
    expect(want.map(([status]) => status)).toEqual([200, 200, 200]);
    expect(bitsOf(await ask(IN_NETWORKS[0]!, url!, QUESTIONS))).toEqual(want);

    const endless = { prompt: "Hello", stream: true, max_tokens: 2000, ignore_eos: true };
    const prefills = () => nodes[0]!.output().split("Prefill batch").length;
    const before = prefills();
    const streaming = ask(IN_NETWORKS[0]!, url!, [{ path: "/v1/completions", body: endless }]);
    await until(() => expect(prefills()).toBeGreaterThan(before));
    cutCable();
    const [[status, text]] = (await streaming) as [[number, string]];
    expect([status, text]).toEqual([200, expect.stringContaining('"code":503')]);
    const codes = await Promise.all(nodes.map(({ closed }) => closed));
    expect(codes.map(([code]) => code)).toEqual([3, 3]);
    expect(nodes[0]!.output()).toContain(
      "Cannot go on without node 1: it has given no sign of life",
    );
  },
);

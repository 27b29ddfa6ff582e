/**
 * The installed program on ranks that are processes, which MPI joins on one machine and on two: the
 * answers of one rank, and what clients and machines see of a group that ends.
 */
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort, isAlive, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { ranksOf } from "../support/struck_group.ts";
import {
  adapterName,
  type ServingWisp,
  scratch,
  serveWisp,
  startWisp,
  stopAll,
  wisp,
} from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);

const SHARED = [
  ...["--adapter", adapterName(), "--random-seed", "7", "--context-length", "512"],
  ...["--chunked-prefill-size", "32", "--page-size", "4", "--max-total-tokens", "2048"],
];
const LONG = "Tell me about the sea, the wind and the weather of the north. ".repeat(6);

const profiles = scratch("profiles");

let alone: ServingWisp;
/** One machine with two ranks, whose steps draft. */
let local: ServingWisp;
/** Two machines with a rank each. */
let first: ServingWisp;
let second: ServingWisp;

beforeAll(async () => {
  if (lack !== undefined) return;
  const address = `127.0.0.1:${await freePort()}`;
  const group = ["--tp-size", "2", "--nnodes", "2", "--dist-init-addr", address];
  const pages = ["--retraction-memory", "16M", "--prefix-cache-dir", scratch("prefixes")];
  const drafted = ["--speculative-algorithm", "EAGLE", "--speculative-adaptive", "off"];
  const own = ["--gpu-id-step", "0", "--enable-metrics", "--profile-dir", profiles];
  [alone, local, first, second] = await Promise.all([
    serveWisp(SHARED),
    serveWisp([...SHARED, "--tp-size", "2", "--nnodes", "1", ...drafted, ...pages, ...own], {
      env: { SVC_SET_CPU_AFFINITY: "true" },
    }),
    serveWisp([...SHARED, ...group, "--node-rank", "0"]),
    serveWisp([...SHARED, ...group, "--node-rank", "1"], {
      listens: /Health of node 1 at (http:\/\/\S+);/,
    }),
  ]);
});
afterAll(stopAll);

interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly args: { readonly name?: string };
}

interface Memory {
  readonly weight_bytes: number;
  readonly kvcache_bytes: number;
}

interface ServerState {
  readonly memory_usage: Memory;
  readonly ranks: readonly { readonly memory_usage: Memory }[];
}

/** Numbers as Linux lists them: "0-2,5". */
function listed(numbers: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] === number - 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join();
}

/** Chunks of long prompts, prefixes that the cache has, all ways to draw, beside each other. */
async function answers(server: ServingWisp) {
  const cached: number[] = [];
  const ask = async (text: string, params: object, rest: object = {}) => {
    const sampling_params = { max_new_tokens: 12, ignore_eos: true, ...params };
    const response = await server.post("/generate", { text, sampling_params, ...rest });
    expect(response.status).toBe(200);
    const { output_ids, meta_info } = (await response.json()) as {
      readonly output_ids: readonly number[];
      readonly meta_info: Readonly<Record<string, unknown>>;
    };
    const { cached_tokens, input_token_logprobs, output_token_logprobs } = meta_info;
    cached.push(cached_tokens as number);
    return { output_ids, input_token_logprobs, output_token_logprobs };
  };
  const sampled = { temperature: 0.9, top_k: 40, sampling_seed: 3 };
  const all = [
    await ask(LONG, { temperature: 0 }),
    ...(await Promise.all([
      ask(`${LONG}Briefly.`, { temperature: 0 }, { return_logprob: true, logprob_start_len: 90 }),
      ask(`${LONG}Now!`, { ...sampled, repetition_penalty: 1.2, min_p: 0.02 }),
      ask("A number:", { ...sampled, regex: "[0-9]{3}( [a-z]{3})+" }),
      ask("Hello", { ...sampled, frequency_penalty: 0.5, logit_bias: { "70": 4 } }),
    ])),
  ];
  expect(Math.max(...cached)).toBeGreaterThan(60);
  return all;
}

describe.skipIf(lack !== undefined)("ranks that are processes", () => {
  test("answer what one rank does, on one machine and on two", async () => {
    const want = await answers(alone);
    expect(await answers(first)).toEqual(want);
    expect(await answers(local)).toEqual(want);
    for (const server of [first, local]) {
      expect(server.output()).toContain("share the model over MPI");
      expect(server.output()).toMatch(/^Ranks: each has whole self_attn, as .*would cut a block/m);
    }
  });

  test("have the adapters and CPUs that options and variables give them", () => {
    expect(local.output()).toMatch(/^Adapters of this machine's ranks: 0 .+, 0 /m);
    expect(first.output()).not.toMatch(/^(Adapters|CPUs):/m);
    const [, ...bound] = /^CPUs: bound rank 0 to (.+), rank 1 to (.+)$/m.exec(local.output())!;
    for (const [i, rank] of ranksOf(local.process.pid!).entries()) {
      const cpus = readdirSync(`/proc/${rank}/task`).flatMap((thread) => {
        // Mesa lets the thread of its cache of shaders run anywhere.
        const name = readFileSync(`/proc/${rank}/task/${thread}/comm`, "utf8");
        if (name.includes("disk$")) return [];
        const status = readFileSync(`/proc/${rank}/task/${thread}/status`, "utf8");
        return [/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)![1]!];
      });
      expect(cpus.length).toBeGreaterThan(4);
      expect(new Set(cpus)).toEqual(new Set([listed(bound[i]!.split(" ").map(Number))]));
    }
  });

  test("tell of themselves, each by its number", async () => {
    expect(local.output()).toMatch(/^TP1 Adapter: .+$/m);
    expect(local.output()).toMatch(/^TP1 Memory: .+ of weights, .+ of KV cache for 2048 tokens/m);
    expect(second.output()).toMatch(/^TP1 Memory: /m);
    const info = await (await local.get("/get_server_info")).json();
    const [state] = (info as { readonly internal_states: readonly [ServerState] }).internal_states;
    const memory = { weight_bytes: expect.any(Number), kvcache_bytes: expect.any(Number) };
    expect(state.ranks).toEqual(
      [0, 1].map((tp_rank) => {
        return { tp_rank, load: expect.any(Number), memory_usage: memory };
      }),
    );
    for (const name of ["weight_bytes", "kvcache_bytes"] as const) {
      const parts = state.ranks.map(({ memory_usage }) => memory_usage[name]);
      expect(Math.min(...parts)).toBeGreaterThan(0);
      expect(parts[0]! + parts[1]!).toBe(state.memory_usage[name]);
    }
    const load = await (await local.get("/get_load")).json();
    expect(load).toMatchObject({ ranks: [{ tp_rank: 0 }, { tp_rank: 1, load: 0 }] });
    const page = await (await local.get("/metrics")).text();
    for (const [rank, { memory_usage }] of state.ranks.entries()) {
      const labels = `engine_type="unified",tp_rank="${rank}",pp_rank="0",dp_rank="0"`;
      expect(page).toContain(
        `wisp:weight_bytes{${labels},model_name="tiny-deepseek-v3"} ${memory_usage.weight_bytes}\n`,
      );
    }
  });

  test("are all in one trace, by one clock", async () => {
    expect((await local.post("/start_profile", {})).status).toBe(200);
    const sampling_params = { max_new_tokens: 6, temperature: 0, ignore_eos: true };
    await local.post("/generate", { text: "Where does the time go?", sampling_params });
    const stopped = await (await local.post("/stop_profile", {})).text();
    const [, file] = /The profile is in (\S+)/.exec(stopped)!;
    const { traceEvents, otherData } = JSON.parse(readFileSync(join(profiles, file!), "utf8")) as {
      readonly traceEvents: readonly TraceEvent[];
      readonly otherData: Readonly<Record<string, number>>;
    };
    const named = (name: string) =>
      traceEvents.filter((one) => one.name === name).map(({ args }) => args.name);
    expect(named("process_name")).toEqual(["rank 0", "rank 1"]);
    expect(new Set(named("thread_name"))).toEqual(new Set(["host", "exchanges", "kernels"]));
    const spans = traceEvents.filter(({ ph }) => ph === "X");
    const on = (pid: number, tid: number) =>
      spans.filter((one) => one.pid === pid && one.tid === tid && one.name !== "an order");
    const [launches, exchanges] = [2, 3].map((tid) => [on(1, tid), on(2, tid)] as const);
    expect(launches![0].length).toBeGreaterThan(100);
    expect(launches![1].length).toBe(launches![0].length);
    expect(exchanges![0].length).toBeGreaterThan(10);
    expect(exchanges![1].map(({ name }) => name)).toEqual(exchanges![0].map(({ name }) => name));
    const { clockErrorMicroseconds: error } = otherData;
    expect(error).toBeGreaterThan(0);
    // Both ranks are in each exchange at one time, though their processes began at different ones.
    for (const [i, own] of exchanges![0].entries()) {
      const other = exchanges![1][i]!;
      expect(own.ts + own.dur).toBeGreaterThan(other.ts - error!);
      expect(other.ts + other.dur).toBeGreaterThan(own.ts - error!);
    }
  });

  test("of nodes above 0 answer probes, and nothing else", async () => {
    await second.sees(/Ready: the ranks of node 1 are loaded/);
    for (const path of ["/health", "/health_generate"]) {
      const response = await second.get(path);
      expect([response.status, await response.text()]).toEqual([200, ""]);
    }
    expect((await second.post("/generate", { text: "Hello" })).status).toBe(404);
    expect((await second.get("/v1/models")).status).toBe(404);
  });

  test("end together when all nodes are told to, with 0", async () => {
    const ranks = [...ranksOf(first.process.pid!), ...ranksOf(second.process.pid!)];
    expect(ranks).toHaveLength(2);
    const ended = await Promise.all([second.stop(), first.stop()]);
    expect(ended.map(({ code }) => code)).toEqual([0, 0]);
    expect(ranks.filter(isAlive)).toEqual([]);
  });

  test.each([0, 1])(
    "of which rank %i is frozen keep no probe waiting, and answer behind that",
    async (rank) => {
      const stream = await local.post("/v1/completions", {
        ...{ prompt: "Hello", stream: true, temperature: 0, max_tokens: 96, ignore_eos: true },
      });
      const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
      let text = (await reader.read()).value!;
      const pid = ranksOf(local.process.pid!)[rank]!;
      process.kill(pid, "SIGSTOP");
      try {
        // What waited for the rank would come once an exchange has waited too long, as a 503.
        for (const path of ["/v1/models", "/get_server_info", "/get_load", "/health"]) {
          const { status } = await local.get(path);
          expect([path, status]).toEqual([path, 200]);
        }
      } finally {
        process.kill(pid, "SIGCONT");
      }
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
      }
      expect(text).toMatch(/"finish_reason":"length".*\n\ndata: \[DONE\]\n\n$/);
    },
  );

  test("of which one is killed end at once, and clients get a 503", async () => {
    const ranks = ranksOf(local.process.pid!);
    const endless = { max_new_tokens: null, ignore_eos: true };
    const answer = local.post("/generate", { text: "Hello", sampling_params: endless });
    const stream = await local.post("/v1/completions", {
      ...{ prompt: "Hello", stream: true, max_tokens: 490, ignore_eos: true },
    });
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    await reader.read();
    const [begun, closed] = [performance.now(), once(local.process, "close")];
    process.kill(ranks[1]!, "SIGKILL");
    const response = await answer;
    const { error } = (await response.json()) as { readonly error: { readonly message: string } };
    expect([response.status, error.message]).toEqual([503, expect.stringContaining("rank 1")]);
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      rest += value;
    }
    expect(rest).toMatch(/"code":503/);
    expect((await closed)[0]).toBe(3);
    // A third of a second where nothing else runs; without the launchers it would take 30 seconds.
    expect(performance.now() - begun).toBeLessThan(15_000);
    expect(local.output()).toContain("Cannot go on without rank 1: SIGKILL has ended it");
    expect(ranks.filter(isAlive)).toEqual([]);
  });
});

describe.skipIf(lack !== undefined)("nodes that do not come together", () => {
  const start = (node: number, address: string, ...args: string[]) => {
    const group = ["--tp-size", "2", "--nnodes", "2", "--dist-init-addr", address];
    const own = ["--port", "0", "--node-rank", `${node}`];
    return wisp(["launch_server", ...SHARED, ...group, ...own, ...args]);
  };

  test("with different options name the first difference and end with 1", async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const both = await Promise.all([
      start(0, address, "--page-size", "8"),
      start(1, address, "--page-size", "16", "--schedule-policy", "lpm"),
    ]);
    for (const { code, stderr } of both) {
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining("--page-size is 8 on node 0, 16 on node 1"),
      ]);
    }
  });

  test("in time are named, with 4", async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const { code, stderr } = await start(0, address, "--dist-timeout", "0.5");
    expect([code, stderr]).toEqual([
      4,
      expect.stringContaining("Cannot start without node 1: not there 0.5 s after"),
    ]);
  });

  test.each([
    ["a rank", ["--tp-size", "2"]],
    ["a replica", ["--dp-size", "2"]],
  ])("end at once when one with %s is told to", async (_, ranks) => {
    const nodes = ["--nnodes", "2", "--node-rank", "1", "--dist-init-addr", "127.0.0.1:1"];
    const one = startWisp(["launch_server", "--port", "0", ...SHARED, ...ranks, ...nodes]);
    await one.sees(/^Health of node 1/m);
    one.process.kill();
    const said = "Cannot wait for the group: SIGTERM came before the nodes have met";
    expect([await one.closed, one.stderr()]).toEqual([[143, null], expect.stringContaining(said)]);
  });

  test("as they count different nodes name that, with 1", async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const both = await Promise.all([
      start(0, address, "--tp-size", "6"),
      start(1, address, "--tp-size", "6", "--nnodes", "3"),
    ]);
    for (const { code, stderr } of both) {
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining("nnodes is 2 on node 0, 3 on node 1"),
      ]);
    }
  });

  test("at a port that is taken say so, with 1", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
    const { code, stderr } = await start(0, address);
    taken.close();
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(`Cannot wait for nodes at ${address}: another program has the port`),
    ]);
  });

  test("with a port for probes that is taken say so, with 1", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as AddressInfo;
    const { code, stderr } = await start(1, "127.0.0.1:1", "--port", `${port}`);
    taken.close();
    const said = expect.stringMatching(`^Cannot .*:${port}: the port is in use$`);
    expect([code, stderr.trim()]).toEqual([1, said]);
  });

  test("for want of memory name the rank that has too little, with 3", async () => {
    const group = ["--tp-size", "2", "--nnodes", "1", "--device-memory", "4M"];
    const { code, stderr } = await wisp(["launch_server", "--port", "0", ...SHARED, ...group]);
    expect([code, stderr]).toEqual([3, expect.stringMatching(/^Cannot .* MiB/m)]);
  });

  test.each([
    [["--tp-size", "3"], "--tp-size 3: 2 machines"],
    [["--prefix-cache-size", "1M"], "--prefix-cache-size without --prefix-cache-dir"],
    [["--node-rank", "2"], "--node-rank 2: the machines of --nnodes 2"],
  ])("for %j are refused by the option's name", async (args, message) => {
    const { code, stderr } = await start(0, "127.0.0.1:1", ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});

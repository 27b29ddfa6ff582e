/** Answers of a prefill and a decode server through the router are those of one server. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import { openEngine } from "../support/engines/engine.ts";
import { type Pair, pairOf, roleServer } from "../support/router/pair_servers.ts";
import { postTo } from "../support/router/running_router.ts";
import { closeAfterwards, closeAll, serverOver } from "../support/router/worker_servers.ts";
import { errorMessage } from "../support/server/http_client.ts";
import { until } from "../support/until.ts";

const sampling_params = { temperature: 0, max_new_tokens: 12 };
const messages = [{ role: "user", content: "Hi" }];
const SCHEMA = JSON.stringify({
  type: "object",
  properties: { name: { type: "string", maxLength: 8 }, age: { type: "integer" } },
  required: ["name", "age"],
});
const LOGPROBS = { return_logprob: true, logprob_start_len: 0, top_logprobs_num: 2 };

const PENALTIES = {
  max_new_tokens: 9,
  sampling_seed: 1,
  min_new_tokens: 4,
  frequency_penalty: 0.5,
  presence_penalty: 0.3,
  repetition_penalty: 1.2,
};

/** As numbers of JSON, whose f32 are the rows. */
const EMBEDDINGS = Array.from({ length: 9 }, (_, r) =>
  Array.from({ length: 256 }, (_, i) => Math.sin(r * 256 + i) / 4),
);

const REQUESTS: readonly (readonly [path: string, body: object])[] = [
  ["/generate", { text: "Once upon a time", sampling_params }],
  ["/generate", { text: "Once upon a time", sampling_params, stream: true }],
  ["/generate", { text: ["One", "Two and more"], sampling_params, ...LOGPROBS }],
  ["/generate", { text: "Once upon a time", sampling_params, ...LOGPROBS, stream: true }],
  ["/generate", { text: "The", sampling_params: { max_new_tokens: 8, n: 3, sampling_seed: 7 } }],
  ["/generate", { text: "X", sampling_params: { max_new_tokens: 1, temperature: 0 } }],
  ["/generate", { text: "J", sampling_params: { ...sampling_params, json_schema: SCHEMA } }],
  ["/generate", { text: "Y", sampling_params: { ...sampling_params, regex: "yes, all of it" } }],
  ["/generate", { input_ids: [5, 9, 5, 9, 7], sampling_params: PENALTIES }],
  ["/generate", { input_embeds: EMBEDDINGS, sampling_params }],
  ["/v1/chat/completions", { messages, max_tokens: 8, seed: 3, logprobs: true, n: 2 }],
  ["/v1/chat/completions", { messages, max_tokens: 8, temperature: 0, stream: true }],
  ["/v1/completions", { prompt: ["One", "Two"], max_tokens: 6, temperature: 0, echo: true }],
  ["/v1/completions", { prompt: "One", max_tokens: 6, temperature: 0, logprobs: 2, echo: true }],
  ["/v1/messages", { messages, max_tokens: 8, temperature: 0 }],
  ["/v1/responses", { input: "Hi", max_output_tokens: 8, temperature: 0, store: false }],
  ["/api/chat", { model: "m", messages, stream: false, options: { num_predict: 8, seed: 1 } }],
];

/** What does not follow the clock, the cache or chance. */
const bare = (text: string) =>
  text
    .replace(/"(created|created_at|completed_at|cached_tokens|id|item_id)":("[^"]*"|[\d.e-]+)/g, "")
    .replace(/"(e2e_latency|\w*_duration|output_ids_at)":[\d.e-]+/g, "")
    .replace(/,"spec_\w+":[\d.e-]+/g, "")
    .replace(/"cache(d|_\w+)_(input_)?tokens":\w+/g, "");

const MODELS: readonly (readonly [string, Partial<EngineOptions>, Partial<EngineOptions>])[] = [
  ["pages of 4, chunks of 5", { pageSize: 4 }, { chunkedPrefillSize: 5 }],
  [
    "an FP8 cache, pages of 64 to pages of 1, and forced text spelled without a step",
    { pageSize: 1, cacheDtype: "fp8_e4m3", jsonJump: "retokenize" },
    { pageSize: 64 },
  ],
  [
    "drafts of the module, pages of 16 to pages of 3",
    {
      speculation: { algorithm: "EAGLE", numSteps: 2, eagleTopk: 1, numDraftTokens: 3 },
      pageSize: 3,
    },
    { pageSize: 16 },
  ],
];

describe.each(MODELS)("%s", (name, options, ofPrefill) => {
  let engines: Engine[];
  let pair: Pair;
  let direct: string;
  beforeAll(async () => {
    const travels = { ...options, transfersPages: true };
    engines = [
      await openEngine({ ...travels, ...ofPrefill }),
      await openEngine(travels),
      await openEngine(options),
    ];
    pair = await pairOf(engines[0]!, engines[1]!);
    direct = (await serverOver(engines[2]!)).url;
  });
  afterAll(async () => {
    await closeAll();
    for (const engine of engines) await engine.close();
  });
  const nothingLeft = async () => {
    const { prefill, decode } = pair;
    await until(() => {
      const { rooms: held, awaited, frames } = prefill.role.counts();
      const used = engines.slice(0, 2).map((engine) => engine.status().usedTokens);
      const left = [held, awaited, frames, decode.role.counts().rooms, ...used];
      expect(left).toEqual(left.map(() => 0));
    });
  };

  const asked = name.startsWith("pages") ? REQUESTS : REQUESTS.slice(0, 9);
  const named = asked.map(
    ([path, body]) => [path, JSON.stringify(body).slice(0, 160), body] as const,
  );
  test.each(named)("%s answers to the bit: %s", async (path, _, body) => {
    const plain = await (await postTo(direct, path, body)).text();
    expect(plain.length, plain).toBeGreaterThan(50);
    // The second time both sides have the prompt in their caches.
    for (let i = 0; i < 2; i++) {
      const routed = await postTo(pair.router.url, path, body);
      const text = await routed.text();
      expect([routed.status, bare(text)]).toEqual([200, bare(plain)]);
    }
    await nothingLeft();
  });

  if (!name.startsWith("pages")) return;

  test("both servers count what travels between them, and why requests fail", async () => {
    const { prefill, decode, router } = pair;
    const read = () => [prefill, decode].map(({ role }) => role.counts());
    const before = read();
    const input_ids = Array.from({ length: 30 }, (_, i) => 300 + i);
    await postTo(router.url, "/generate", { input_ids, sampling_params });
    const after = read();
    const gained = (key: "pages" | "page_bytes" | "transfers" | "opened" | "failed") =>
      after.map((counts, i) => counts[key] - before[i]![key]);
    // The decode server computes the last token itself.
    expect(gained("pages")).toEqual([8, 8]);
    const [sent, received] = gained("page_bytes");
    expect([sent, received! > 8 * 4 * 16]).toEqual([received, true]);
    expect([gained("transfers"), gained("opened"), gained("failed")]).toEqual([
      [1, 1],
      [1, 1],
      [0, 0],
    ]);
    for (const [i, counts] of after.entries()) {
      const seconds = counts.transfer_seconds - before[i]!.transfer_seconds;
      expect(counts.kv_transfer_latency_ms).toBeCloseTo(1000 * seconds, 6);
      expect(counts.kv_transfer_speed_gb_s).toBeCloseTo(sent! / seconds / 1e9, 9);
    }
    const page = await (await fetch(`${decode.url}/metrics`)).text();
    const labels = 'engine_type="decode",tp_rank="0",pp_rank="0",dp_rank="0",model_name="m"';
    for (const line of [
      `wisp:num_decode_transfer_queue_reqs{${labels}} 0`,
      `wisp:kv_transfer_pages_total{${labels}} ${after[1]!.pages}`,
      `wisp:kv_transfers_total{${labels}} ${after[1]!.transfers}`,
      `wisp:disaggregation_servers{${labels}} 1`,
    ]) {
      expect(page.split("\n")).toContain(line);
    }
    const body = { input_ids, sampling_params, bootstrap_host: "127.0.0.1", bootstrap_room: 5 };
    const room = { ...body, bootstrap_port: prefill.bootstrapPort };
    await Promise.all([
      postTo(prefill.url, "/generate", room),
      postTo(decode.url, "/generate", { ...room, input_ids: [1, ...input_ids] }),
    ]);
    const failed = read().map(({ failures, failed_before_transfer: early }, i) => [
      ...["other", "other_server"].map((why) => failures[why]! - after[i]!.failures[why]!),
      early - after[i]!.failed_before_transfer,
    ]);
    // The one that sees the difference, and the one that it tells; which had asked for pages by then.
    expect(failed.map(([own, told]) => [own, told])).toEqual([
      [1, 0],
      [0, 1],
    ]);
    await nothingLeft();
  });

  test("what one server refuses, the pair refuses with the same words", async () => {
    const body = { text: "a", sampling_params: { max_new_tokens: -1 } };
    const [plain, routed] = [
      await postTo(direct, "/generate", body),
      await postTo(pair.router.url, "/generate", body),
    ];
    expect([routed.status, await routed.text()]).toEqual([400, await plain.text()]);
    const wrong = { text: "a", sampling_params: { regex: "(" }, bootstrap_room: 6 };
    const refused = await postTo(pair.prefill.url, "/generate", wrong);
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining("Cannot read the regular expression"),
    ]);
    const late = { text: "a", return_logprob: true, logprob_start_len: 7000, sampling_params };
    expect((await postTo(pair.router.url, "/generate", late)).status).toBe(
      (await postTo(direct, "/generate", late)).status,
    );
    await nothingLeft();
  });

  test("a client that leaves ends its request on both sides", async () => {
    const leaving = new AbortController();
    const endless = { ...sampling_params, max_new_tokens: null, ignore_eos: true };
    const answer = await postTo(
      pair.router.url,
      "/generate",
      { text: "On and on", sampling_params: endless, stream: true },
      { signal: leaving.signal },
    );
    const reader = answer.body!.getReader();
    expect((await reader.read()).done).toBe(false);
    leaving.abort();
    await nothingLeft();
    await until(() => expect(engines[1]!.status().runningRequests).toBe(0));
  });

  test("requests without a room, with one that is taken, or with a strange host are refused", async () => {
    const { prefill, decode } = pair;
    for (const { url } of [prefill, decode]) {
      const answer = await postTo(url, "/generate", { text: "a", sampling_params });
      expect(answer.status).toBe(400);
      expect(await errorMessage(answer)).toContain("received without boostrap room id");
    }
    const hosts = ["10.0.0.1", "localhost", "2.2.2.2", "127.0.0.1.nip.io"];
    for (const bootstrap_host of hosts) {
      const body = { text: "a", sampling_params, bootstrap_host, bootstrap_room: 4 };
      const answer = await postTo(decode.url, "/generate", body);
      expect(answer.status).toBe(400);
      expect(await errorMessage(answer)).toContain("Cannot use bootstrap_host: ");
    }
    const room = { bootstrap_host: "127.0.0.1", bootstrap_port: prefill.bootstrapPort };
    const waiting = new AbortController();
    const body = { text: "a", sampling_params, ...room, bootstrap_room: 77 };
    const first = postTo(prefill.url, "/generate", body, { signal: waiting.signal });
    await until(() => expect(prefill.role.counts().rooms).toBe(1));
    const second = await postTo(prefill.url, "/generate", body);
    expect([second.status, await errorMessage(second)]).toEqual([
      400,
      "Cannot open room 77: another request that lives has it",
    ]);
    waiting.abort();
    await expect(first).rejects.toThrow();
    await nothingLeft();
  });

  test("sides that were sent different prompts both fail, and nothing of either is cached", async () => {
    const { prefill, decode } = pair;
    const room = { bootstrap_host: "127.0.0.1", bootstrap_port: prefill.bootstrapPort };
    const send = (url: string, text: string) =>
      postTo(url, "/generate", { text, sampling_params, ...room, bootstrap_room: 91 });
    const before = engines[1]!.status().cachedTokens;
    const answers = await Promise.all([
      send(prefill.url, "This is one prompt, which is long enough to fill pages"),
      send(decode.url, "That is another prompt, which is long enough to fill pages"),
    ]);
    for (const answer of answers) {
      expect(answer.status).toBe(500);
      expect(await answer.text()).toContain("its two sides have different prompts");
    }
    expect(engines[1]!.status().cachedTokens).toBe(before);
    await nothingLeft();
  });
});

describe("a handshake", () => {
  afterEach(closeAll);
  const PAIRS: readonly (readonly [string, Partial<EngineOptions>, readonly string[]])[] = [
    [
      'cache dtype is "bf16", the decode server\'s "f32"',
      { cacheDtype: "f32" },
      ["--disaggregation-key", "one"],
    ],
    ["the two servers have different keys", {}, ["--disaggregation-key", "two"]],
  ];
  test.each(PAIRS)("refuses and names: %s", async (problem, options, args) => {
    const given = { pageSize: 4, transfersPages: true, maxTotalTokens: 512 };
    const engines = [await openEngine(given), await openEngine({ ...given, ...options })];
    for (const engine of engines) closeAfterwards(() => engine.close());
    const prefill = await roleServer(engines[0]!, "prefill", [
      ...["--disaggregation-bootstrap-port", "0", "--disaggregation-key", "one"],
    ]);
    const { bootstrapPort } = prefill;
    const hosts = ["--disaggregation-prefill-hosts", `127.0.0.0/8:${bootstrapPort}`];
    const decode = await roleServer(engines[1]!, "decode", [...hosts, ...args]);
    const room = { bootstrap_host: "127.0.0.1", bootstrap_port: bootstrapPort, bootstrap_room: 5 };
    const body = { text: "a", sampling_params, ...room };
    const answer = await postTo(decode.url, "/generate", body);
    expect(answer.status).toBe(500);
    expect(await errorMessage(answer)).toContain(problem);
    expect(answer.headers.get("x-wisp-failed-side")).toBe("prefill");
    expect(decode.role.counts().rooms).toBe(0);
  });
});

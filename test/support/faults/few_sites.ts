/**
 * Scenarios that are about a few sites each, which no other one passes.
 *
 * @module
 */
import { MemoryBlobs } from "../engines/memory_blobs.ts";
import { chat, EXPERT_RECORD, GENERATING, generate, prompt, STORED } from "./sent_requests.ts";
import type { Scenario } from "./served_engine.ts";

/** Prefixes of two blocks each. */
const storedLong = (first: number) =>
  generate({ input_ids: prompt(first, 150), store_prefix: true }, { max_new_tokens: 2 });

/** Has room for one of them, whatever it says. */
function smallBlobs(): MemoryBlobs {
  const blobs = new MemoryBlobs();
  blobs.room = 200_000;
  blobs.isFull = (error) => String(error).includes("no room");
  return blobs;
}

/** Whatever is read of it is damaged. */
class DamagedBlobs extends MemoryBlobs {
  override async read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const bytes = await super.read(name);
    if (bytes !== undefined) bytes[0]! ^= 1;
    return bytes;
  }
}

const withStorage = (storage: MemoryBlobs): Scenario["options"] => ({
  ...{ pageSize: 4, contextLength: 256, maxTotalTokens: 1024 },
  prefixStore: { storage, maxWait: 60 },
});

export const OF_FEW_SITES: readonly Scenario[] = [
  {
    name: "experts that are recorded and move between ranks",
    options: {
      ...{ maxTotalTokens: 1024, contextLength: 128, tensorParallelSize: 2 },
      experts: { redundant: 4, rebalance: { everySteps: 3, minBalancedness: 1 } },
    },
    isSlow: true,
    varies: true,
    waves: [{ record: EXPERT_RECORD }, { chat: GENERATING.chat }],
    only: [
      "server/routes/expert_record.ts: await requireControl(expertRecords, request).start();",
      "server/routes/expert_record.ts: await requireControl(expertRecords, request).stop();",
      "server/routes/expert_record.ts: const name = await requireControl(expertRecords, request).dump();",
      "engine/experts/expert_balancer.ts: this.#turn = await this.#plan(layout);",
      "engine/experts/expert_balancer.ts: if (this.#turn !== undefined) await this.#move(this.#turn, runner, layout);",
      "engine/step/step_loop.ts: if (layout !== undefined) await balancer?.beforeStep(runner, layout);",
    ],
  },
  {
    name: "a storage without room, whose prefixes are used again",
    options: withStorage(smallBlobs()),
    waves: [
      { stored: storedLong(9) },
      { "stored before": storedLong(9) },
      { "stored too": storedLong(10) },
    ],
    only: [
      "cache/prefix_store.ts: if (!isFull || !(await this.#makeRoom(byteLength, kept, this.#bytes))) throw error;",
      "cache/prefix_store.ts: await put(); (2)",
      'cache/prefix_store.ts: await this.#try("mark", () => this.#options.storage.markUsed(names));',
      "cache/prefix_store.ts: await this.#delete(names);",
    ],
  },
  {
    name: "a storage that damages what it holds",
    options: withStorage(new DamagedBlobs()),
    waves: [{ stored: STORED }, { "stored before": STORED }],
    only: [
      "cache/prefix_store.ts: await this.discard(block, error);",
      "cache/prefix_store.ts: await this.#delete([name]);",
    ],
  },
  {
    name: "pages that cannot be what they were stored as",
    options: withStorage(new MemoryBlobs()),
    waves: [{ stored: STORED }, { "stored before": STORED }],
    faults: [
      {
        site: "engine/prefix/prefix_transfers.ts: await write();",
        error: ({ errors }) => new errors.TransferError("cache pages", "length", "it is odd"),
      },
    ],
    only: ["engine/prefix/prefix_transfers.ts: await this.#options.store.discard(block, error);"],
  },
  {
    name: "a stream that fails, and clients that leave one",
    options: { maxTotalTokens: 1024, contextLength: 128 },
    waves: [
      { stream: GENERATING.stream },
      {
        left: [...chat({ stream: true, max_tokens: 60 }), { reads: "one piece" }],
      },
    ],
    faults: [
      {
        site: "http/event_stream.ts: const { done, value } = await iterator.next();",
        error: () => new RangeError("the stream fails"),
      },
    ],
    refused: ["stream"],
    only: [
      "http/event_stream.ts: await iterator.return?.();",
      "http/event_stream.ts: await iterator.return?.(); (2)",
      "server/generation_group.ts: await this.#stop(); (2)",
    ],
  },
  {
    name: "more log-probabilities than there is memory for",
    options: { maxTotalTokens: 16384, contextLength: 2048 },
    waves: [
      {
        many: generate(
          {
            input_ids: Array.from({ length: 7 }, (_, i) => prompt(i)),
            ...{ return_logprob: true, token_ids_logprob: Array(4096).fill(5) },
          },
          { max_new_tokens: 1500 },
        ),
      },
    ],
    refused: ["many"],
    only: ["server/generation_group.ts: await this.#stop();"],
  },
  {
    name: "behind a port, a client that reads slowly",
    options: { maxTotalTokens: 1024, contextLength: 512 },
    isRemote: true,
    waves: [
      {
        slow: [
          ...generate({ input_ids: prompt(5), stream: true }, { max_new_tokens: 400 }),
          { reads: "slowly" },
        ],
      },
    ],
    only: [
      "engine/remote/serve_engine.ts: while (!isOver && this.#mustWait(running)) await running.taken.wait();",
    ],
  },
];

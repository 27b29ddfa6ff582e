/**
 * A good client beside one kind of hostile clients after another: it gets the bits that it gets alone,
 * `/health` answers throughout, nothing of the others is left, and no piece of their work keeps the
 * event loop from everything else.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device, fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { liveBuffers } from "../../support/devices/live_buffers.ts";
import { unsentDevice } from "../../support/devices/unsent_device.ts";
import { KINDS } from "../../support/neighbours/kinds.ts";
import {
  heldBytes,
  type Leftovers,
  NeighbourServer,
} from "../../support/neighbours/neighbour_server.ts";
import { type Kind, Neighbours, type Report, toldBy } from "../../support/neighbours/neighbours.ts";
import { watchThread } from "../../support/neighbours/thread_time.ts";
import { until } from "../../support/until.ts";

const kinds = KINDS.filter(({ isLong = false }) => fullTest || !isLong);
/** Of each answer to the good client. */
const TOKENS = fullTest ? 48 : 8;
/** Chats of the good client beside each kind, at least. */
const CHATS = fullTest ? 3 : 1;
/** What caches of the process may come to hold while a kind is there. */
const HEAP_BYTES = 48 * 2 ** 20;
/** What tables of the device, as those of biases, may have grown by while a kind was there. */
const GROWN_BYTES = 2 ** 20;
/** Milliseconds of the thread that one piece of work may take. */
const LONGEST_PIECE = 50;
/** The collector and the compiler of the process take turns too: the least of so many runs counts. */
const TRIES = 4;

/** A server with its clients, and what it was like before any was hostile. */
class Campaign {
  readonly server: NeighbourServer;
  readonly clients: Neighbours;
  /** What the good client gets alone. */
  readonly told: readonly unknown[];
  readonly #left: Leftovers;
  readonly #bytes: number;

  private constructor(
    { server, clients }: Pick<Campaign, "server" | "clients">,
    start: { readonly told: readonly unknown[]; readonly left: Leftovers; readonly bytes: number },
  ) {
    this.server = server;
    this.clients = clients;
    this.told = start.told;
    this.#left = start.left;
    this.#bytes = start.bytes;
  }

  static async open(server: NeighbourServer): Promise<Campaign> {
    // Before the first client: connections of a client that has its answer are not closed at once.
    const left = server.leftovers();
    const clients = new Neighbours(server.server.url, TOKENS);
    const alone = await clients.run(undefined, 2);
    const start = { told: toldBy(alone.after), left, bytes: await heldBytes() };
    return new Campaign({ server, clients }, start);
  }

  /** One kind of hostile clients, and what it has to leave as it was. */
  async run(kind: Kind): Promise<Report> {
    const report = await this.clients.run(kind, CHATS);
    for (const answer of [...report.answers, report.after]) {
      expect(toldBy(answer)).toEqual(this.told);
    }
    expect(report.health.filter((status) => status !== 200)).toEqual([]);
    await this.settle();
    // Buffers that the collector found nothing to point to go one round later.
    await until(async () => expect((await heldBytes()) - this.#bytes).toBeLessThan(HEAP_BYTES));
    return report;
  }

  /** Waits until nothing of any client is left, but for what the collector has yet to find. */
  async settle(): Promise<void> {
    const { engine, errors } = this.server;
    await until(() => {
      const { sockets, ...left } = this.server.leftovers();
      expect({ sockets: Math.max(sockets, this.#left.sockets), ...left }).toEqual(this.#left);
    });
    expect(await engine.flushCache()).toBe(true);
    expect(engine.status()).toMatchObject({ healthy: true, recoveries: 0, cachedTokens: 0 });
    expect(errors).toEqual([]);
  }

  async close(): Promise<void> {
    await this.clients.close();
    await this.server.close();
  }
}

describe.skipIf(smallestCaseOnly)("a good client of the embedded model", () => {
  const buffers = liveBuffers(device);
  const unsent = unsentDevice(buffers.device);
  let campaign: Campaign;
  /** Bytes of the device once the good client has been served. */
  let deviceBytes: number;

  beforeAll(async () => {
    const server = await NeighbourServer.open({ device: unsent.device });
    campaign = await Campaign.open(server);
    deviceBytes = buffers.byteLength;
    // An event may have several tokens, where only together they are a text.
    const tokens = JSON.stringify(campaign.told).match(/"top_logprobs":/g);
    expect(tokens).toHaveLength(TOKENS);
  });
  afterAll(async () => {
    await campaign.close();
    expect(buffers.byteLength).toBe(0);
  });

  test.each(kinds)("beside $name gets its answers, and nothing of them is left", async (kind) => {
    const { statuses } = await campaign.run(kind);
    expect(buffers.byteLength - deviceBytes).toBeLessThan(GROWN_BYTES);
    // A server that is full says so.
    const failed = Object.keys(statuses).filter((status) => /^5/.test(status) && status !== "503");
    expect(failed).toEqual([]);
  });

  // Then neither the driver's time nor the model's is the server's.
  describe("whose model computes nothing any more", () => {
    beforeAll(() => unsent.stop());

    test.each(kinds)("beside $name waits for no long piece of work", async (kind) => {
      let longest = Number.POSITIVE_INFINITY;
      for (let i = 0; i < TRIES && longest > LONGEST_PIECE; i++) {
        const watch = watchThread();
        await campaign.clients.run(kind);
        longest = Math.min(longest, watch.stop());
        await campaign.settle();
      }
      expect(longest).toBeLessThan(LONGEST_PIECE);
    });
  });
});

describe.skipIf(!fullTest || smallestCaseOnly)("a good client of an engine that drafts", () => {
  const buffers = liveBuffers(device);
  let campaign: Campaign;

  beforeAll(async () => {
    const speculation = { algorithm: "NGRAM" } as const;
    campaign = await Campaign.open(
      await NeighbourServer.open({ device: buffers.device, speculation }),
    );
  });
  afterAll(async () => {
    await campaign.close();
    expect(buffers.byteLength).toBe(0);
  });

  const short = KINDS.filter(({ isLong = false }) => !isLong);
  test.each(short)("beside $name gets its answers", async (kind) => {
    await campaign.run(kind);
  });
});

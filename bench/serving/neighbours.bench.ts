/**
 * Tokens a second of a good client, alone and beside one kind of hostile clients after another: the
 * embedded model, on a real socket, in one process. Ratios of one run count, not the figures.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { expect, test } from "vitest";
import { KINDS } from "../../test/support/neighbours/kinds.ts";
import { NeighbourServer } from "../../test/support/neighbours/neighbour_server.ts";
import {
  type Kind,
  Neighbours,
  type Report,
  toldBy,
} from "../../test/support/neighbours/neighbours.ts";
import { watchThread } from "../../test/support/neighbours/thread_time.ts";
import { until } from "../../test/support/until.ts";
import { table } from "../support/table.ts";

const TOKENS = 64;
/** Chats of the good client beside each kind, at least. */
const CHATS = 4;

interface Measured {
  readonly report: Report;
  readonly tokensPerSecond: number;
  /** Milliseconds of the server's thread that the longest piece of work took. */
  readonly longest: number;
}

async function measure(clients: Neighbours, kind: Kind | undefined): Promise<Measured> {
  const watch = watchThread();
  const report = await clients.run(kind, CHATS);
  const longest = watch.stop();
  const seconds = report.seconds;
  return { report, longest, tokensPerSecond: (TOKENS * report.answers.length) / seconds };
}

test("a good client beside hostile ones", async () => {
  const server = await NeighbourServer.open();
  const clients = new Neighbours(server.server.url, TOKENS);
  try {
    await measure(clients, undefined);
    const alone = await measure(clients, undefined);
    const told = toldBy(alone.report.after);
    const rows: string[][] = [
      ["alone", alone.tokensPerSecond.toFixed(1), "1.00", alone.longest.toFixed(0)],
    ];
    const started = performance.now();
    for (const kind of KINDS) {
      const beside = await measure(clients, kind);
      for (const answer of beside.report.answers) expect(toldBy(answer)).toEqual(told);
      const share = beside.tokensPerSecond / alone.tokensPerSecond;
      rows.push([
        kind.name,
        beside.tokensPerSecond.toFixed(1),
        share.toFixed(2),
        beside.longest.toFixed(0),
      ]);
      await until(() => expect(server.leftovers()).toMatchObject({ running: 0, queued: 0 }));
    }
    console.log(table(["beside", "tokens/s", "of alone", "longest piece, ms"], rows));
    console.log(`${KINDS.length} kinds in ${((performance.now() - started) / 1000).toFixed(0)} s`);
  } finally {
    await clients.close();
    await server.close();
  }
});

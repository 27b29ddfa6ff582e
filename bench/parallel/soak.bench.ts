/**
 * How stable ranks over MPI are: groups that are started again and again, each with many exchanges of
 * ragged sizes whose bytes are all looked at, while V8 collects and moves what it can.
 *
 * `WISP_SOAK=1 npm run bench -- bench/parallel/soak` runs it, for an hour or so, and goes on where an
 * earlier run of the same library was stopped; what it has counted is in `results/parallel_soak.json`. `WISP_SOAK_STARTS`
 * and `WISP_SOAK_EXCHANGES` are the aims, over all ways together.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  freePort,
  LauncherProcess,
  lackOfMpi,
  Programs,
  type StartOptions,
  tellLack,
} from "../../test/support/mpi/processes.ts";
import { table } from "../support/table.ts";

const STARTS = Number(process.env.WISP_SOAK_STARTS ?? 500);
const EXCHANGES = Number(process.env.WISP_SOAK_EXCHANGES ?? 1_000_000);
const RESULTS = fileURLToPath(new URL("../results/parallel_soak.json", import.meta.url));
/** Bytes of a rank, at most. */
const MOST = 100_000;
const HOURS = 3_600_000;

/** Ways in which ranks find each other: in one node's memory, and over TCP between nodes. */
const WAYS = [2, 4].flatMap((size) => [
  { name: `${size} ranks, shared memory`, size, nodes: 1, env: {} },
  {
    name: `${size} ranks on ${size} nodes, UCX_TLS=tcp,self`,
    size,
    nodes: size,
    env: { UCX_TLS: "tcp,self" },
  },
]);
type Way = (typeof WAYS)[number];

interface Count {
  /** Groups that were started and ended with their work done. */
  starts: number;
  /** Of them, each done by all ranks. */
  exchanges: number;
  /** What went wrong with others. */
  failures: string[];
}

/** Whose counts they are: those of another library begin anew. */
const shim = fileURLToPath(new URL("../../src/node/mpi/shim.c", import.meta.url));
const library = createHash("sha256").update(readFileSync(shim)).digest("hex").slice(0, 16);
const earlier = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, "utf8")) : {};
const counts: Record<string, Count> = earlier.library === library ? earlier.counts : {};

const lack = lackOfMpi();
tellLack(lack);
const isAsked = process.env.WISP_SOAK === "1" && lack === undefined;
let programs: Programs;
beforeAll(async () => {
  if (isAsked) programs = await Programs.build();
});
afterAll(() => programs?.remove());

/** What the counts are worth nothing without. */
const machine = () =>
  `${cpus().length} cores, ${process.arch}, Node ${process.versions.node}, ${new Date().toISOString().slice(0, 10)}`;

/** One group from its start to its end. */
async function runOnce({ size, nodes, env }: Way, rounds: number, seed: number): Promise<string> {
  const address = nodes === 1 ? undefined : { host: "127.0.0.1", port: await freePort() };
  const options: StartOptions = {
    program: "soak",
    argument: JSON.stringify({ rounds, most: MOST, seed }),
    flags: ["--expose-gc", "--stress-compaction"],
    nodes,
    ranksPerNode: size / nodes,
    address,
    env,
  };
  const launchers = Array.from(
    { length: nodes },
    (_, node) => new LauncherProcess(programs, { ...options, node }),
  );
  const ended = await Promise.all(launchers.map((launcher) => launcher.ended));
  const bad = ended.findIndex(({ code }) => code !== 0);
  if (bad < 0) return "";
  const { code, signal } = ended[bad]!;
  return `start ${seed}, launcher ${bad}: code ${code}, ${signal}: ${launchers[bad]!.stderr.slice(-500)}`;
}

test.skipIf(!isAsked)("groups start, exchange and end", { timeout: 24 * HOURS }, async () => {
  const starts = Math.ceil(STARTS / WAYS.length);
  const rounds = Math.ceil(EXCHANGES / WAYS.length / starts);
  for (let seed = 1; seed <= starts; seed++) {
    for (const way of WAYS) {
      counts[way.name] ??= { starts: 0, exchanges: 0, failures: [] };
      const count = counts[way.name]!;
      if (count.starts + count.failures.length >= seed) continue;
      const problem = await runOnce(way, rounds, seed);
      if (problem === "") {
        count.starts += 1;
        count.exchanges += rounds;
      } else {
        count.failures.push(problem);
      }
      writeFileSync(
        RESULTS,
        `${JSON.stringify({ machine: machine(), library, counts }, null, 2)}\n`,
      );
    }
  }
  const rows = Object.entries(counts).map(([name, { starts, exchanges, failures }]) => [
    name,
    `${starts}`,
    `${exchanges}`,
    `${failures.length}`,
  ]);
  console.log(table(["ways", "starts", "exchanges", "failures"], rows));
  expect(Object.values(counts).flatMap(({ failures }) => failures)).toEqual([]);
});

/**
 * What it costs that the pages of ranks over MPI travel through the first one: exchanges that bring them
 * to it and back, beside those that bring all to every rank, and what it does to have them as one rank
 * would. Of 4 MiB of keys and values of eight heads; of latents the first rank has all.
 *
 * @module
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { PAGE_BYTES, type PageTimes } from "../../test/support/mpi/page_times.ts";
import {
  LauncherProcess,
  lackOfMpi,
  Programs,
  tellLack,
} from "../../test/support/mpi/processes.ts";
import { table } from "../support/table.ts";

const ROUNDS = 3;

const lack = lackOfMpi();
tellLack(lack);
let programs: Programs;
beforeAll(async () => {
  if (lack === undefined) programs = await Programs.build();
}, 120_000);
afterAll(() => programs?.remove());

type Variables = Readonly<Record<string, string>>;

/** With the second every message takes the way over TCP, as between machines. */
const WAYS: readonly (readonly [name: string, env: Variables])[] = [
  ["shared memory", {}],
  ["TCP", { UCX_TLS: "tcp,self", MPIR_CVAR_NOLOCAL: "1" }],
];

async function timesOf(size: number, env: Variables): Promise<PageTimes> {
  const given = { program: "page times", ranksPerNode: size, env };
  const launcher = new LauncherProcess(programs, given);
  const { code } = await launcher.ended;
  await launcher.closed();
  expect(code, launcher.stderr).toBe(0);
  return JSON.parse(/^times: (.*)$/m.exec(launcher.stdout)![1]!);
}

test.skipIf(lack !== undefined)("pages of ranks", { timeout: 600_000 }, async () => {
  const rows: string[][] = [];
  for (const [way, env] of WAYS) {
    for (const size of [2, 4]) {
      const runs: PageTimes[] = [];
      for (let round = 0; round < ROUNDS; round++) runs.push(await timesOf(size, env));
      const names = Object.keys(runs[0]!) as (keyof PageTimes)[];
      for (const name of names) {
        const least = Math.min(...runs.map((run) => run[name]));
        rows.push([way, `${size}`, name, least.toFixed(2), (PAGE_BYTES / least / 1e6).toFixed(2)]);
      }
    }
  }
  console.log(table(["way", "ranks", "", "ms", "GB/s"], rows));
});

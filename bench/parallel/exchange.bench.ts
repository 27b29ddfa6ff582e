/**
 * What an exchange between ranks costs, by size and ranks, beside MPI's own collective called from C:
 * in turns, on the same machine.
 *
 * `WISP_BENCH_ROUNDS` says how often each is started (3); the least time of each counts.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildShim } from "../../src/node/mpi/build_shim.ts";
import type { ExchangeTime } from "../../src/node/mpi/check_ranks.ts";
import {
  LauncherProcess,
  lackOfMpi,
  Programs,
  tellLack,
} from "../../test/support/mpi/processes.ts";
import { table } from "../support/table.ts";

const ROUNDS = Number(process.env.WISP_BENCH_ROUNDS ?? 3);

const lack = lackOfMpi();
tellLack(lack);
const mpiexec = ["mpiexec.hydra", "mpiexec"].find(
  (name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
);
const isPossible = lack === undefined && mpiexec !== undefined;

const folder = mkdtempSync(join(tmpdir(), "wisp-raw-"));
const raw = join(folder, "raw_gather");
let programs: Programs;
beforeAll(async () => {
  if (!isPossible) return;
  const source = fileURLToPath(new URL("raw_gather.c", import.meta.url));
  execFileSync(buildShim().compiler, ["-O2", source, "-o", raw]);
  programs = await Programs.build();
});
afterAll(() => {
  programs?.remove();
  rmSync(folder, { recursive: true });
});

async function ours(size: number, env: Readonly<Record<string, string>>): Promise<ExchangeTime[]> {
  const launcher = new LauncherProcess(programs, { program: "times", ranksPerNode: size, env });
  const { code } = await launcher.ended;
  await launcher.closed();
  expect(code, launcher.stderr).toBe(0);
  return JSON.parse(/^times: (.*)$/m.exec(launcher.stdout)![1]!);
}

function inC(size: number, env: Readonly<Record<string, string>>): ExchangeTime[] {
  const args = ["-n", `${size}`, raw];
  const options = { env: { ...process.env, ...env }, encoding: "utf8" } as const;
  return JSON.parse(execFileSync(mpiexec!, args, options));
}

const least = (runs: readonly ExchangeTime[][]) =>
  runs[0]!.map((_, i) => Math.min(...runs.map((times) => times[i]!.microseconds)));

/**
 * Microseconds of a call from Node into C that does nothing, with the arguments of an exchange: what no
 * exchange from JavaScript can be without. The median of blocks of calls.
 */
async function emptyCall(): Promise<number> {
  const { default: koffi } = await import("koffi");
  const library = join(folder, "empty.so");
  const declared =
    "int empty(void *text, int length, void *part, void *counts, void *into, int slice)";
  const input = `${declared} { return 0; }`;
  const args = ["-O2", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", library];
  execFileSync(buildShim().compiler, args, { input });
  const empty = koffi.load(library).func(declared);
  const [text, part, counts] = [new Uint8Array(30), new Uint8Array(64), new Int32Array(2)];
  const times = Array.from({ length: 200 }, () => {
    const begun = performance.now();
    for (let i = 0; i < 100; i++) empty(text, 30, part, counts, part, 50);
    return 10 * (performance.now() - begun);
  });
  return times.sort((a, b) => a - b)[100]!;
}

/** With the second every message takes the way over TCP, as between machines. */
const WAYS: readonly (readonly [name: string, env: Readonly<Record<string, string>>])[] = [
  ["shared memory", {}],
  ["TCP", { UCX_TLS: "tcp,self", MPIR_CVAR_NOLOCAL: "1" }],
];

test.skipIf(!isPossible)("exchanges of ranks beside MPI in C", { timeout: 3_600_000 }, async () => {
  const rows: string[][] = [];
  for (const [way, env] of WAYS) {
    for (const size of [2, 4]) {
      const own: ExchangeTime[][] = [];
      const others: ExchangeTime[][] = [];
      for (let round = 0; round < ROUNDS; round++) {
        own.push(await ours(size, env));
        others.push(inC(size, env));
      }
      const [mine, theirs] = [least(own), least(others)];
      for (const [i, { bytes }] of own[0]!.entries()) {
        const ratio = mine[i]! / theirs[i]!;
        rows.push([
          way,
          `${size}`,
          `${bytes}`,
          mine[i]!.toFixed(1),
          theirs[i]!.toFixed(1),
          ratio.toFixed(2),
        ]);
      }
    }
  }
  console.log(`An empty call from Node into C takes ${(await emptyCall()).toFixed(2)} us.`);
  console.log(table(["way", "ranks", "bytes of each", "us", "us in C", "ratio"], rows));
});

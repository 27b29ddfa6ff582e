/**
 * What exchanges cost in which every rank has bytes of its own for each, beside MPI's own collective
 * called from C; and those of a layer of experts, where every rank gets all that experts made and where
 * one rank gets what is of a row. In turns, on the same machine, the least of each.
 *
 * `WISP_BENCH_ROUNDS` says how often each is started (3).
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildShim } from "../../src/node/mpi/build_shim.ts";
import {
  LauncherProcess,
  lackOfMpi,
  Programs,
  tellLack,
} from "../../test/support/mpi/processes.ts";
import { LAYERS, TO_ALL_SIZES, type ToAllTimes } from "../../test/support/mpi/to_all_times.ts";
import { table } from "../support/table.ts";

const ROUNDS = Number(process.env.WISP_BENCH_ROUNDS ?? 3);

const lack = lackOfMpi();
tellLack(lack);
const mpiexec = ["mpiexec.hydra", "mpiexec"].find(
  (name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
);
const isPossible = lack === undefined && mpiexec !== undefined;

const folder = mkdtempSync(join(tmpdir(), "wisp-raw-"));
const raw = join(folder, "raw_all_to_all");
let programs: Programs;
beforeAll(async () => {
  if (!isPossible) return;
  const source = fileURLToPath(new URL("raw_all_to_all.c", import.meta.url));
  execFileSync(buildShim().compiler, ["-O2", source, "-o", raw]);
  programs = await Programs.build();
});
afterAll(() => {
  programs?.remove();
  rmSync(folder, { recursive: true });
});

type Variables = Readonly<Record<string, string>>;

async function ours(size: number, env: Variables): Promise<ToAllTimes> {
  const given = { program: "to all times", ranksPerNode: size, env };
  const launcher = new LauncherProcess(programs, given);
  const { code } = await launcher.ended;
  await launcher.closed();
  expect(code, launcher.stderr).toBe(0);
  return JSON.parse(/^times: (.*)$/m.exec(launcher.stdout)![1]!);
}

function inC(size: number, env: Variables): number[] {
  const options = { env: { ...process.env, ...env }, encoding: "utf8" } as const;
  return JSON.parse(execFileSync(mpiexec!, ["-n", `${size}`, raw], options));
}

/** With the second every message takes the way over TCP, as between machines. */
const WAYS: readonly (readonly [name: string, env: Variables])[] = [
  ["shared memory", {}],
  ["TCP", { UCX_TLS: "tcp,self", MPIR_CVAR_NOLOCAL: "1" }],
];
const least = (values: readonly number[]) => Math.min(...values);

test.skipIf(!isPossible)("exchanges to all beside MPI in C", { timeout: 3_600_000 }, async () => {
  const exchanges: string[][] = [];
  const layers: string[][] = [];
  for (const [way, env] of WAYS) {
    for (const size of [2, 4]) {
      const own: ToAllTimes[] = [];
      const others: number[][] = [];
      for (let round = 0; round < ROUNDS; round++) {
        own.push(await ours(size, env));
        others.push(inC(size, env));
      }
      for (const [i, bytes] of TO_ALL_SIZES.entries()) {
        const mine = least(own.map(({ sizes }) => sizes[i]!));
        const theirs = least(others.map((times) => times[i]!));
        const figures = [mine.toFixed(0), theirs.toFixed(0), (mine / theirs).toFixed(2)];
        exchanges.push([way, `${size}`, `${bytes}`, ...figures]);
      }
      for (const [i, { rows, chosen, width }] of LAYERS.entries()) {
        const gathered = least(own.map((one) => one.layers[i]!.gathered));
        const returned = least(own.map((one) => one.layers[i]!.returned));
        const figures = [
          gathered.toFixed(0),
          returned.toFixed(0),
          (returned / gathered).toFixed(2),
        ];
        layers.push([way, `${size}`, `${rows} x ${chosen} x ${width}`, ...figures]);
      }
    }
  }
  const head = ["way", "ranks", "bytes for each", "us", "us in C", "ratio"];
  console.log(table(head, exchanges));
  const layerHead = ["way", "ranks", "rows, experts, width", "us to all", "us to one", "ratio"];
  console.log(table(layerHead, layers));
});

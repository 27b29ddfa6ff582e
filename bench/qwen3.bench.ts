/**
 * A model of Qwen3-0.6B's size and random weights: what loading it takes, how fast it prefills and
 * decodes, and how fast llama.cpp's CPU backend does the same with weights of the same shape.
 *
 * Every line is a process of its own. llama.cpp is left out where bench/peers is not installed.
 * Rounds and tokens may be chosen: `WISP_QUANTIZATION` (a comma-separated list, "none" for the
 * weights as they are), `WISP_ROUNDS`, `WISP_GENERATED`.
 *
 * Times of the wall say little while others use the cores, and llama.cpp's threads spin while they
 * wait for each other; processor time of one thread is what compares best.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  MOST_HEAP_BYTES,
  MOST_RESIDENT_BYTES,
  QWEN3_LAYERS,
  type Qwen3Report,
  qwen3Sized,
  residentBesideBuffers,
  runQwen3,
  type Speed,
} from "../test/support/qwen3_process.ts";
import { syntheticSource, writeFolder } from "../test/support/synthetic/source.ts";
import { machine } from "./machine.ts";
import { CheckpointRows } from "./peers/checkpoint_rows.ts";
import { ggufModel } from "./peers/gguf_model.ts";
import { writeGguf } from "./peers/gguf_writer.ts";
import { table } from "./table.ts";

const PROMPT = 128;
const SEED = 7;
const TIMEOUT = 1_200_000;
const quantizations = (process.env.WISP_QUANTIZATION ?? "int4,int8,none").split(",");
const rounds = Number(process.env.WISP_ROUNDS ?? 3);
const generated = Number(process.env.WISP_GENERATED ?? 24);
const THREADS = [1, 2];

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const peerInstalled = existsSync(path("peers/node_modules/node-llama-cpp"));

const reports = new Map<string, Qwen3Report>();
const peers = new Map<number, Speed>();
let folder: string;

beforeAll(async () => {
  execFileSync(process.execPath, [path("../.ci/build_when_stale.mjs")], { stdio: "inherit" });
  folder = await mkdtemp(join(tmpdir(), "wisp-qwen3-"));
  const source = syntheticSource(qwen3Sized(), SEED);
  await writeFolder(source, join(folder, "model"));
  if (!peerInstalled) return;
  const weights = await CheckpointRows.open(source);
  await writeGguf(join(folder, "q4_0.gguf"), ggufModel(qwen3Sized(), weights, "q4_0"));
}, TIMEOUT);

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
  console.log(`${machine()}, load average ${loadavg()[0]!.toFixed(1)}`);
  console.log(memoryTable());
  console.log(speedTable());
});

/** Each figure of the round in which it was best. */
function best(runs: readonly Speed[]): Speed {
  const most = (name: keyof Speed) => Math.max(...runs.map((one) => one[name]));
  const least = (name: keyof Speed) => Math.min(...runs.map((one) => one[name]));
  return {
    prefill: most("prefill"),
    decode: most("decode"),
    prefillCpu: least("prefillCpu"),
    decodeCpu: least("decodeCpu"),
  };
}

const peerTest = async (threads: number) => {
  if (!peerInstalled) {
    console.log(
      "llama.cpp is left out: (cd bench/peers && npm install --ignore-scripts --no-save) installs it",
    );
    return;
  }
  const model = join(folder, "q4_0.gguf");
  const asked = JSON.stringify({ model, threads, prompt: PROMPT, generated, rounds });
  const printed = execFileSync(process.execPath, [path("peers/llama_cpp_speed.mjs"), asked], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const { runs } = JSON.parse(printed.trim().split("\n").at(-1)!) as { runs: Speed[] };
  peers.set(threads, best(runs));
};

test("llama.cpp, 1 thread", () => peerTest(THREADS[0]!), TIMEOUT);

test.each(quantizations)(
  "%s",
  async (name) => {
    const report = await runQwen3({
      dist: path("../dist"),
      model: join(folder, "model"),
      options: {
        maxTotalTokens: 1024,
        maxRunningRequests: 4,
        ...(name !== "none" && { quantization: name }),
      },
      prompt: PROMPT,
      generated,
      rounds,
    });
    reports.set(name === "none" ? "bf16" : name, report);
    expect(report.loaded.peakHeap).toBeLessThan(MOST_HEAP_BYTES);
    expect(residentBesideBuffers(report)).toBeLessThan(MOST_RESIDENT_BYTES);
    for (const { tokens } of report.runs) expect(new Set(tokens).size).toBeGreaterThan(1);
  },
  TIMEOUT,
);

test("llama.cpp, 2 threads", () => peerTest(THREADS[1]!), TIMEOUT);

function memoryTable(): string {
  const mb = (bytes: number) => (bytes / 1e6).toFixed(0);
  return table(
    ["loading", "s", "peak heap, MiB", "resident beside buffers, MB", "weights, MB", "worst error"],
    [...reports].map(([name, report]) => [
      name,
      report.loaded.seconds.toFixed(1),
      (report.loaded.peakHeap / 2 ** 20).toFixed(0),
      mb(residentBesideBuffers(report)),
      mb(report.weightBytes),
      report.quantized === 0 ? "" : report.worstError.toFixed(4),
    ]),
  );
}

function speedTable(): string {
  const theirBest = peers.size > 0 ? best([...peers.values()]) : undefined;
  const share = (ours: number, theirs: number | undefined) =>
    theirs === undefined ? "" : `${((100 * ours) / theirs).toFixed(0)} %`;
  const figures = (speed: Speed) => [
    speed.prefill.toFixed(1),
    speed.decode.toFixed(2),
    (speed.prefillCpu * 1e3).toFixed(1),
    (speed.decodeCpu * 1e3).toFixed(0),
    share(speed.prefill, theirBest?.prefill),
    share(speed.decode, theirBest?.decode),
    share(1 / speed.prefillCpu, theirBest && 1 / theirBest.prefillCpu),
    share(1 / speed.decodeCpu, theirBest && 1 / theirBest.decodeCpu),
  ];
  const ours = [...reports].map(([name, { runs, bytesPerToken }]) => {
    const { launchesPerToken } = runs[0]!;
    const ofLayer = Math.floor(launchesPerToken / QWEN3_LAYERS);
    const launches = `${launchesPerToken} (${ofLayer} a layer)`;
    return [`wisp ${name}`, (bytesPerToken / 1e6).toFixed(0), launches, ...figures(best(runs))];
  });
  const theirs = [...peers]
    .sort(([a], [b]) => a - b)
    .map(([threads, speed]) => {
      const name = `llama.cpp q4_0, ${threads} thread${threads > 1 ? "s" : ""}`;
      return [name, "", "", ...figures(speed)];
    });
  const header = ["engine", "MB a token", "launches a token", "prefill tok/s", "decode tok/s"];
  const cpu = ["prefill cpu ms", "decode cpu ms"];
  const note =
    "of llama.cpp: its best of all lines; pp and tg are prefill and decode, by the wall and by cpu";
  const shares = ["pp wall", "tg wall", "pp cpu", "tg cpu"];
  return `${table([...header, ...cpu, ...shares], [...ours, ...theirs])}\n${note}`;
}

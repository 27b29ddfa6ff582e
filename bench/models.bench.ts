/**
 * Models beside llama.cpp with weights of the same shape: what loading one takes, how fast it
 * prefills and decodes. They are a DeepSeek of six layers in FP8, the embedded model and the shape of
 * Qwen3-0.6B, weights being random but the embedded model's.
 *
 * Every line is a process of its own, which begins with a short round that does not count; ours runs
 * its driver on as many threads as the server would. llama.cpp is left out where bench/peers is not
 * installed. `WISP_MODELS` chooses among "deepseek", "embedded" and "qwen3", `WISP_PEERS` among
 * llama.cpp's "cpu" and "vulkan", the second on the adapter of ours: not a default, as its first run
 * on lavapipe compiles shaders for minutes. `WISP_PEER_THREADS` is a list for its "cpu",
 * `WISP_QUANTIZATION` one for Qwen3, "none" for the weights as they are; `WISP_BATCH` sequences of
 * `WISP_PROMPT` tokens each run at once; `WISP_ROUNDS` and `WISP_GENERATED` are rounds and generated
 * tokens.
 *
 * Times of the wall say little while others use the cores, and llama.cpp's threads spin while they
 * wait for each other, for minutes when others are many: then one thread is enough, and its
 * processor time is what compares best.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  MOST_HEAP_BYTES,
  MOST_RESIDENT_BYTES,
  type Qwen3Report,
  residentBesideBuffers,
  runQwen3,
  type Speed,
} from "../test/support/checkpoints/qwen3_process.ts";
import { withoutAmx } from "./peers/llama_cpp/without_amx.ts";
import { benchedModels, writeCheckpoint, writePeerModel } from "./support/benched_models.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";

const TIMEOUT = 1_800_000;
const list = (name: string, otherwise: string) => (process.env[name] ?? otherwise).split(",");
const rounds = Number(process.env.WISP_ROUNDS ?? 3);
const generated = Number(process.env.WISP_GENERATED ?? 24);
const batch = Number(process.env.WISP_BATCH ?? 1);
const prompt = Number(process.env.WISP_PROMPT ?? 128);
const shared = Number(process.env.WISP_SHARED ?? 0);

const contextLength = prompt + generated + 64;
const models = benchedModels(list("WISP_QUANTIZATION", "int4,int8,none"));
const names = models.map(({ name }) => name);
const wanted = list("WISP_MODELS", names.join());
const unknown = wanted.filter((name) => !names.includes(name));
if (unknown.length > 0) throw new Error(`WISP_MODELS has ${unknown}; there are ${names}`);

interface Peer {
  readonly backend: string;
  readonly threads: number;
}

const peers: readonly Peer[] = list("WISP_PEERS", "cpu").flatMap((backend) =>
  backend === "cpu"
    ? list("WISP_PEER_THREADS", "1,2").map((threads) => ({ backend, threads: Number(threads) }))
    : [{ backend, threads: availableParallelism() }],
);
const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const peerInstalled = existsSync(path("peers/node_modules/node-llama-cpp"));
const missing =
  "llama.cpp is left out: (cd bench/peers && npm install --ignore-scripts --no-save) installs it";

beforeAll(() => {
  execFileSync(process.execPath, [path("../.ci/build_when_stale.mjs")], { stdio: "inherit" });
  if (!peerInstalled) console.log(missing);
}, TIMEOUT);

describe.each(models.filter(({ name }) => wanted.includes(name)))("$name", (benched) => {
  const { name: title, plain, type, quantizations } = benched;
  const reports = new Map<string, Qwen3Report>();
  const theirs = new Map<string, Speed>();
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "wisp-models-"));
    await writeCheckpoint(benched, join(folder, "model"), contextLength);
    if (peerInstalled) await writePeerModel(benched, join(folder, "model.gguf"));
  }, TIMEOUT);

  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
    const sizes = `${batch} times ${prompt} prompt tokens`;
    console.log(`${title}; ${sizes}; ${machine()}, load average ${loadavg()[0]!.toFixed(1)}`);
    console.log(memoryTable(reports));
    console.log(speedTable(reports, theirs));
  });

  test.each(quantizations)(
    "%s",
    async (name) => {
      const report = await runQwen3({
        dist: path("../dist"),
        model: join(folder, "model"),
        options: {
          // Of long contexts a binding holds the attention of few sequences.
          contextLength,
          maxTotalTokens: Math.max(1024, shared + batch * (contextLength - shared)),
          maxRunningRequests: Math.max(4, batch),
          ...(name !== "none" && { quantization: name }),
        },
        ...{ batch, prompt, shared, generated, rounds },
      });
      reports.set(name === "none" ? "as published" : name, report);
      expect(report.loaded.peakHeap).toBeLessThan(MOST_HEAP_BYTES);
      expect(residentBesideBuffers(report)).toBeLessThan(MOST_RESIDENT_BYTES);
      for (const { tokens } of report.runs) expect(new Set(tokens).size).toBeGreaterThan(1);
    },
    TIMEOUT,
  );

  test.skipIf(!peerInstalled).each(peers)(
    "llama.cpp, $backend, threads: $threads",
    (peer) => {
      const vocabulary = plain.config.vocab_size as number;
      const run = () => runPeer(peer, { model: join(folder, "model.gguf"), vocabulary });
      const speed = benched.abortsWithAmx ? withoutAmx(run) : run();
      const { backend, threads } = peer;
      const where = backend === "cpu" ? `cpu, threads: ${threads}` : backend;
      theirs.set(`llama.cpp ${type}, ${where}`, speed);
    },
    TIMEOUT,
  );
});

function runPeer(
  peer: Peer,
  model: { readonly model: string; readonly vocabulary: number },
): Speed {
  const asked = { ...peer, ...model, batch, prompt, generated, rounds };
  const child = [path("peers/llama_cpp_speed.mjs"), JSON.stringify(asked)];
  const printed = execFileSync(process.execPath, child, {
    encoding: "utf8",
    // It passes over Vulkan devices that are a CPU unless they are chosen.
    env: { ...process.env, GGML_VK_VISIBLE_DEVICES: "0" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const answer = JSON.parse(printed.trim().split("\n").at(-1)!) as {
    readonly warmUp: number;
    readonly device?: string;
    readonly runs: readonly Speed[];
  };
  const device = answer.device ?? "the processor";
  console.log(`llama.cpp on ${device}: first answer after ${answer.warmUp.toFixed(1)} s`);
  return best(answer.runs);
}

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

function memoryTable(reports: ReadonlyMap<string, Qwen3Report>): string {
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

/** Shares are of the best figure that llama.cpp has on the processor, or else of Vulkan's. */
function speedTable(
  reports: ReadonlyMap<string, Qwen3Report>,
  theirs: ReadonlyMap<string, Speed>,
): string {
  const onProcessor = [...theirs].filter(([name]) => name.includes("cpu"));
  const compared = (onProcessor.length > 0 ? onProcessor : [...theirs]).map(([, speed]) => speed);
  const theirBest = compared.length > 0 ? best(compared) : undefined;
  const share = (ours: number, of: number | undefined) =>
    of === undefined ? "" : `${((100 * ours) / of).toFixed(0)} %`;
  const figures = (speed: Speed) => [
    speed.prefill.toFixed(1),
    speed.decode.toFixed(2),
    (speed.prefillCpu * 1e3).toFixed(2),
    (speed.decodeCpu * 1e3).toFixed(2),
    share(speed.prefill, theirBest?.prefill),
    share(speed.decode, theirBest?.decode),
    share(1 / speed.prefillCpu, theirBest && 1 / theirBest.prefillCpu),
    share(1 / speed.decodeCpu, theirBest && 1 / theirBest.decodeCpu),
  ];
  const ours = [...reports].map(([name, { runs, bytesPerToken }]) => {
    const bytes = (bytesPerToken / 1e6).toFixed(0);
    return [`wisp ${name}`, bytes, `${runs[0]!.launchesPerStep || ""}`, ...figures(best(runs))];
  });
  const peerRows = [...theirs].map(([name, speed]) => [name, "", "", ...figures(speed)]);
  const header = ["engine", "weights, MB", "launches a step", "prefill tok/s", "decode tok/s"];
  const cpu = ["prefill cpu ms", "decode cpu ms"];
  const shares = ["pp wall", "tg wall", "pp cpu", "tg cpu"];
  const note =
    "pp and tg: prefill and decode as a share of llama.cpp's best, by the wall and by cpu";
  return `${table([...header, ...cpu, ...shares], [...ours, ...peerRows])}\n${note}`;
}

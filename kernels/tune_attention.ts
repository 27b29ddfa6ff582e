/**
 * Finds how attention is shared out the fastest on an adapter, by running its kernels over random
 * caches in every way that a tuning may choose.
 *
 * A way counts only when its bits are those of the plain one.
 *
 * @module
 */
import { DeviceError } from "../src/errors.ts";
import { Readback } from "../src/gpu/readback.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { canAskFor } from "../src/gpu/subgroup_size.ts";
import { allocateTensor, type Tensor } from "../src/gpu/tensor.ts";
import {
  type AttentionTuning,
  attentionTuning,
  PLAIN_TUNING,
  TUNING_CHOICES,
} from "../src/gpu/tuning.ts";
import { FEWEST_LANES } from "./attention/exchange.ts";
import { gqaDecode } from "./attention/gqa/gqa_decode.ts";
import { GQA_PREFILL_ROW_TILE, gqaPrefill } from "./attention/gqa/gqa_prefill.ts";
import { gqaWriteDecode } from "./attention/gqa/gqa_write_decode.ts";
import { mlaDecode } from "./attention/mla/mla_decode.ts";
import { mlaPrefill, PREFILL_ROW_TILE } from "./attention/mla/mla_prefill.ts";
import { SHARED_ROWS } from "./attention/split_launch.ts";
import { bf16Words } from "./cache/host_cache.ts";
import { layoutFor } from "./linear/weights/layout.ts";
import { askingWorks, Bench } from "./self_test.ts";
import { leastSeconds } from "./timed_launches.ts";

export interface TuneAttentionOptions {
  /** Keys that rows see, a multiple of 64. Default 1024. */
  readonly keys?: number;
  /** Milliseconds that each way is measured for, at least. Default 60. */
  readonly milliseconds?: number;
}

/** What each kind of rows may choose: its heads. */
const CHOICES = { row: "rowHeads", group: "groupHeads", prompt: "promptHeads" } as const;
const KINDS = Object.keys(CHOICES) as (keyof typeof CHOICES)[];
/** Also: those of a group, each for itself; a prompt's over expanded latents, which have no choice. */
type Rows = keyof typeof CHOICES | "apart" | "expanded";

/** Another way must be faster by this much: less is noise. */
const CLEARLY = 0.95;
const PLAIN: AttentionTuning = {
  rowHeads: 1,
  groupHeads: 1,
  promptHeads: 1,
  lanes: 8,
  subgroups: false,
};

const ROWS = 64;
/** Rows of an item for both kinds of prompts. */
const ROW_TILE = Math.min(GQA_PREFILL_ROW_TILE, PREFILL_ROW_TILE);
const HEADS = 16;
const GQA = { heads: HEADS, kvHeads: 4, headDim: 128 } as const;
const MLA = { heads: HEADS, latent: 512, rope: 64, nope: 128 } as const;
/** Queries, keys and values of a row side by side; a half of each head rotates. */
const VECTORS = {
  projectedStride: (GQA.heads + 2 * GQA.kvHeads) * GQA.headDim,
  queryColumn: 0,
  keyColumn: GQA.heads * GQA.headDim,
  valueColumn: (GQA.heads + GQA.kvHeads) * GQA.headDim,
  eps: 0,
  rotary: MLA.rope,
};
/** Of a prompt's latent attention, as wide as one of grouped queries. */
const VALUE = GQA.headDim;
const SHARED = { pageSize: 64, splitLength: 256, scale: 0.05, cacheDtype: "bf16" } as const;

/**
 * Measures, checks and chooses. Other work on the device disturbs it.
 *
 * @throws {DeviceError} when no way gives the bits of the plain one on this adapter.
 */
export async function tuneAttention(
  device: GPUDevice,
  { keys = 1024, milliseconds = 60 }: TuneAttentionOptions = {},
): Promise<AttentionTuning> {
  const timed = new TimedAttention(device, { keys, milliseconds });
  try {
    const known = attentionTuning(device.adapterInfo);
    const all = async (tuning: AttentionTuning) => {
      let sum = 0;
      for (const rows of [...KINDS, "expanded"] as const) sum += await timed.seconds(rows, tuning);
      return sum;
    };
    const ways = await waysOf(device, known, (lanes) => subgroupsOfSize(device, lanes));
    let best = await fastest(ways, all);
    for (const rows of KINDS) {
      const heads = TUNING_CHOICES[CHOICES[rows]];
      const tried = heads.map((count) => ({ ...best, [CHOICES[rows]]: count }));
      best = await fastest([best, ...tried], (tuning) => timed.seconds(rows, tuning));
    }
    const { sharesReads: _, ...chosen } = best;
    const [apart, shared] = [
      await timed.seconds("apart", chosen),
      await timed.seconds("group", chosen),
    ];
    return shared < CLEARLY * apart ? { ...chosen, sharesReads: true } : chosen;
  } finally {
    timed.destroy();
  }
}

/**
 * How invocations may learn of each other's values: what is known to be good comes first.
 *
 * @param works Whether subgroups of so many invocations, which kernels can ask for, do what they should.
 */
export async function waysOf(
  device: GPUDevice,
  known: AttentionTuning,
  works: (lanes: number) => Promise<boolean>,
): Promise<readonly AttentionTuning[]> {
  const { subgroupSize = 0 } = layoutFor(device);
  const portable = TUNING_CHOICES.lanes.map((lanes) => ({ ...known, lanes, subgroups: false }));
  if (subgroupSize >= FEWEST_LANES) return [{ ...known, subgroups: true }, ...portable];
  const asked: AttentionTuning[] = [];
  for (const lanes of new Set([known.lanes, ...TUNING_CHOICES.lanes])) {
    if (!canAskFor(device, lanes) || !(await works(lanes))) continue;
    asked.push({ ...known, lanes, subgroups: true });
  }
  return [...asked, ...portable];
}

async function subgroupsOfSize(device: GPUDevice, lanes: number): Promise<boolean> {
  const recorder = new Recorder(device, { maxLaunches: 64 });
  const bench = new Bench(recorder);
  try {
    return await askingWorks(bench, lanes);
  } finally {
    bench.destroy();
    recorder.destroy();
  }
}

/** The first, or one that is clearly faster. */
async function fastest(
  tried: readonly AttentionTuning[],
  secondsOf: (tuning: AttentionTuning) => Promise<number>,
): Promise<AttentionTuning> {
  let best: AttentionTuning | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const tuning of tried) {
    const seconds = await secondsOf(tuning);
    if (!(seconds < (best === undefined ? least : CLEARLY * least))) continue;
    best = tuning;
    least = seconds;
  }
  if (best !== undefined) return best;
  throw new DeviceError("Cannot use this adapter: attention gives other bits every time");
}

/** Rows of one sequence over random caches of both kinds, and how long their attention takes. */
class TimedAttention {
  readonly #device: GPUDevice;
  readonly #milliseconds: number;
  readonly #splits: number;
  readonly #tensors: ReturnType<typeof randomTensors>;
  /** What the plain form makes of each kind of rows. */
  readonly #want = new Map<Rows, readonly Uint32Array[]>();

  constructor(
    device: GPUDevice,
    { keys, milliseconds }: Required<Pick<TuneAttentionOptions, "keys" | "milliseconds">>,
  ) {
    this.#device = device;
    this.#milliseconds = milliseconds;
    this.#splits = Math.ceil(keys / SHARED.splitLength);
    this.#tensors = randomTensors(device, keys, this.#splits);
  }

  /** Infinite where the bits are not those of the plain form. */
  async seconds(rows: Rows, tuning: AttentionTuning): Promise<number> {
    const want = this.#want.get(rows) ?? (await this.#run(rows, PLAIN));
    this.#want.set(rows, want);
    const got = await this.#run(rows, tuning);
    const same = got.every((part, p) => part.every((bits, i) => bits === want[p]![i]));
    if (!same) return Number.POSITIVE_INFINITY;
    const recorder = new Recorder(this.#device, { maxLaunches: 64 });
    try {
      const launch = this.#bind(recorder, rows, tuning);
      await recorder.pipelines.ready();
      return await leastSeconds(recorder, launch, this.#milliseconds);
    } finally {
      recorder.destroy();
    }
  }

  destroy(): void {
    const { expanded, ...others } = this.#tensors;
    for (const { buffer } of Object.values({ ...others, ...expanded })) buffer.destroy();
  }

  async #run(rows: Rows, tuning: AttentionTuning): Promise<readonly Uint32Array[]> {
    const { gqaOut, mlaOut } = this.#tensors;
    const device = this.#device;
    const recorder = new Recorder(device, { maxLaunches: 64 });
    const readbacks = [gqaOut, mlaOut].map(({ size }) => new Readback(device, size, 1));
    try {
      const launch = this.#bind(recorder, rows, tuning);
      await recorder.pipelines.ready();
      for (const { buffer, size } of [gqaOut, mlaOut]) {
        device.queue.writeBuffer(buffer, 0, new Float32Array(size / 4).fill(Number.NaN));
      }
      launch();
      const reads = [gqaOut, mlaOut].map((out, i) => readbacks[i]!.record(recorder, out, out.size));
      recorder.submit();
      return await Promise.all(reads.map(async (read) => new Uint32Array(await read())));
    } finally {
      for (const readback of readbacks) readback.destroy();
      recorder.destroy();
    }
  }

  #bind(recorder: Recorder, rows: Rows, tuning: AttentionTuning): () => void {
    const { query, gqaCache, mlaCache, gqaOut, mlaOut, partials, items, ...step } = this.#tensors;
    const { subgroupSize, askedSubgroupSize } = tuning.subgroups
      ? layoutFor(this.#device, { ...PLAIN_TUNING, attention: tuning })
      : {};
    const { groups, ropeTable, rows: places, pageTables, expanded, writtenCache } = step;
    const common = {
      ...SHARED,
      rows: places,
      pageTables,
      query,
      tuning,
      subgroupSize,
      askedSubgroupSize,
    };
    const width = GQA.heads * GQA.headDim;
    const gqa = { ...common, ...GQA, queryStride: width, out: gqaOut, outStride: width };
    const mla = { ...common, ...MLA, ropeTable, queryStride: HEADS * (MLA.nope + MLA.rope) };
    if (rows === "prompt" || rows === "expanded") {
      const values = { ...expanded, value: VALUE, out: mlaOut, outStride: HEADS * VALUE };
      const prefill =
        rows === "prompt"
          ? gqaPrefill(recorder, { ...gqa, cache: gqaCache, items })
          : mlaPrefill(recorder, { ...mla, ...values, items });
      return () => prefill(0, ROWS / ROW_TILE);
    }
    const shared = { partials, ...(rows === "group" && { groups }) };
    const decodes = [
      rows === "row"
        ? // Four heads of a key head have room on every adapter.
          gqaWriteDecode(recorder, {
            ...gqa,
            ...VECTORS,
            partials,
            ropeTable,
            projected: query,
            cache: writtenCache,
          })!
        : gqaDecode(recorder, { ...gqa, ...shared, cache: gqaCache }),
      mlaDecode(recorder, {
        ...mla,
        ...shared,
        cache: mlaCache,
        out: mlaOut,
        queryAbsorbed: query,
      }),
    ];
    const count = rows === "row" ? 1 : SHARED_ROWS;
    return () => {
      for (const decode of decodes) decode(count, this.#splits, rows === "group" ? 1 : 0);
    };
  }
}

function randomTensors(device: GPUDevice, keys: number, splits: number) {
  const upload = (data: Float32Array | Uint32Array, label: string): Tensor => {
    const tensor = allocateTensor(device, data.byteLength, label);
    device.queue.writeBuffer(tensor.buffer, 0, data as Float32Array<ArrayBuffer>);
    return tensor;
  };
  const random = (length: number) => Float32Array.from({ length }, () => Math.random() * 2 - 1);
  const cache = (width: number) => upload(bf16Words(random(keys * width)), "tuned cache");
  const widest = HEADS * MLA.latent;
  const first = keys - ROWS;
  // Every page is where its number says.
  const row = (r: number) => [0, first + r, first + r, 0];
  const item = (i: number) => {
    const end = ROW_TILE * (i + 1);
    return [end - ROW_TILE, ROW_TILE, 0, 0, first + end, 1, 1, 0];
  };
  const each = (count: number, words: (i: number) => readonly number[]) =>
    Uint32Array.from(Array.from({ length: count }, (_, i) => words(i)).flat());
  return {
    query: upload(random(ROWS * widest), "tuned queries"),
    gqaCache: cache(2 * GQA.kvHeads * GQA.headDim),
    // Later launches do not read what a faulty kernel may have left.
    writtenCache: cache(2 * GQA.kvHeads * GQA.headDim),
    mlaCache: cache(MLA.latent + MLA.rope),
    rows: upload(each(ROWS, row), "tuned rows"),
    pageTables: upload(
      each(keys / SHARED.pageSize, (i) => [i]),
      "tuned pages",
    ),
    items: upload(each(ROWS / ROW_TILE, item), "tuned items"),
    groups: upload(Uint32Array.of(0, SHARED_ROWS), "tuned groups"),
    ropeTable: upload(random(keys * MLA.rope), "tuned rope table"),
    partials: allocateTensor(
      device,
      SHARED_ROWS * splits * HEADS * (2 + MLA.latent) * 4,
      "tuned partials",
    ),
    gqaOut: allocateTensor(device, ROWS * GQA.heads * GQA.headDim * 4, "tuned output"),
    mlaOut: allocateTensor(device, ROWS * HEADS * VALUE * 4, "tuned output"),
    expanded: {
      keyValues: upload(random(keys * HEADS * (MLA.nope + VALUE)), "tuned keys and values"),
      ropes: upload(random(keys * MLA.rope), "tuned rope parts"),
      state: allocateTensor(device, ROWS * HEADS * 2 * 4, "tuned state"),
    },
  };
}

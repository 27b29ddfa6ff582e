/**
 * A layer of experts of the shape of the 671B model in FP8, with all its weights on the GPU: each
 * launch and the whole, beside the bound of the experts that rows really chose.
 *
 * @module
 */
import { afterAll, describe, expect, test } from "vitest";
import { storedBytes } from "../../kernels/linear/weights/weight_cost.ts";
import {
  gateUpRows,
  orderOf,
  type WeightOrder,
} from "../../kernels/linear/weights/weight_order.ts";
import { E4M3_BLOCKS } from "../../kernels/norm/quantize.ts";
import { allocating } from "../../src/gpu/device.ts";
import { DeviceMemory, type MemoryLimits } from "../../src/gpu/memory.ts";
import { Plan } from "../../src/gpu/plan.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { EMPTY_STEP, type Step } from "../../src/layers/batch.ts";
import { Moe } from "../../src/layers/moe/moe.ts";
import {
  allocateMoeScratch,
  type MoeScratch,
  type MoeShape,
} from "../../src/layers/moe/moe_scratch.ts";
import { defaultDeviceMemory } from "../../src/node/device/device_memory.ts";
import { ONE_RANK } from "../../src/parallel/communicator.ts";
import { formatsOf } from "../../test/support/checkpoints/formats.ts";
import { adapter, device } from "../../test/support/devices/gpu.ts";
import { catchLaunches, kindsOfLaunches } from "../support/launch_profile.ts";
import {
  type Bounds,
  boundSeconds,
  bounds,
  expectNear,
  floatsOf,
  micros,
  percent,
  Report,
  scaled,
  TIMEOUT,
  wordsOf,
} from "./gpu_bench.ts";
import { type BenchedClass, FMA128, MATRIX_CLASSES } from "./gpu_classes.ts";
import { fillTensor, type MadeTensor, madeIn, WORDS } from "./gpu_data.ts";
import { secondsOf } from "./gpu_time.ts";
import { MatrixRows, scaleFill, wordFill } from "./gpu_weights.ts";

const MOST_EXPERTS = [256, 128, 64, 32];
const WIDTHS = scaled(
  { hiddenSize: 7168, intermediate: 2048 },
  { hiddenSize: 512, intermediate: 256 },
);
/** Of the device's memory, for weights: the rest is for the rows of a prompt. */
const WEIGHT_SHARE = 0.75;

/** Of the model's experts, as many as the device is taken to have room for. */
function expertsThatFit(): number {
  const bytes = 3 * WIDTHS.hiddenSize * WIDTHS.intermediate;
  const room = WEIGHT_SHARE * defaultDeviceMemory(adapter);
  return MOST_EXPERTS.find((experts) => experts * bytes <= room) ?? MOST_EXPERTS.at(-1)!;
}

const SHAPE: MoeShape = {
  ...WIDTHS,
  routed: scaled(expertsThatFit(), 16),
  shared: 1,
  perToken: scaled(8, 4),
  scoring: "sigmoid",
  selection: "noaux_tc",
  groups: scaled(8, 4),
  groupsKept: scaled(4, 2),
  normalize: true,
  scalingFactor: 2.5,
};
/** Small ones, so that the small run has several slabs too. */
const WEIGHT_LIMITS = scaled<MemoryLimits>(device.limits, {
  maxBufferSize: 2 ** 20,
  maxStorageBufferBindingSize: 2 ** 20,
});
const ROWS = scaled([1, 8, 64, 512, 4096], [1, 8, 64]);
const NAME = "mlp";
const SLOTS = SHAPE.perToken + SHAPE.shared;
const { hiddenSize: HIDDEN, intermediate: WIDTH } = SHAPE;
/** Of a prompt, which products of matrices are for. */
const MATRIX_ROWS = scaled([512, 4096], [64]);
/** Half a step of E4M3 of the largest numbers of a group, and of each number. */
const ROUNDED_TOLERANCE = 2 ** -4;

/** Memory whose tensors are found again by their labels. */
class NamedMemory extends DeviceMemory {
  readonly tensors = new Map<string, Tensor>();

  override allocate(...args: Parameters<DeviceMemory["allocate"]>): Tensor {
    const tensor = super.allocate(...args);
    const [, , label] = args;
    this.tensors.set(label, tensor);
    return tensor;
  }

  named(label: string): Tensor {
    return this.tensors.get(label)!;
  }
}

/** One of the two matrices of every expert, in slabs. */
class ExpertRows {
  readonly #size: { readonly dtype: "fp8"; readonly rows: number; readonly columns: number };
  readonly #order: WeightOrder;
  readonly #slabs: { first: number; words: MadeTensor; scales: MadeTensor }[] = [];

  constructor(rows: number, columns: number, order: WeightOrder) {
    this.#size = { dtype: "fp8", rows, columns };
    this.#order = orderOf(order);
  }

  /** Fills the slabs, which are labelled by their first experts. */
  async fill({ tensors }: NamedMemory, label: string): Promise<void> {
    for (const [name, tensor] of tensors) {
      const first = Number(name.match(`^${label} from (\\d+)$`)?.[1]);
      if (Number.isNaN(first)) continue;
      const seed = 1000 + 2 * this.#slabs.length + 100 * this.#size.columns;
      const words = await madeIn(tensor, [wordFill("fp8")], seed);
      const scaleTensor = tensors.get(`${name} scales`)!;
      const scales = await madeIn(scaleTensor, [scaleFill("fp8")], seed + 1);
      this.#slabs.push({ first, words, scales });
    }
  }

  /** The matrix of one expert. */
  of(expert: number): MatrixRows {
    const slab = this.#slabs.findLast(({ first }) => first <= expert)!;
    const bytes = this.#size.rows * this.#size.columns;
    const wordsBefore = ((expert - slab.first) * bytes) / 4;
    const scalesBefore = (expert - slab.first) * (bytes / 128);
    return new MatrixRows(this.#size, this.#order, {
      word: (index) => slab.words.word(wordsBefore + index),
      scale: (index) => slab.scales.word(scalesBefore + index),
    });
  }

  /** Bytes of one expert's. */
  get bytes(): number {
    return storedBytes({ ...this.#size, ...this.#order });
  }
}

/** The layer, its weights, and room for some rows. */
interface MoeCase {
  readonly numericClass: BenchedClass;
  readonly known: Bounds;
  readonly memory: NamedMemory;
  readonly moe: Moe;
  readonly gateUp: ExpertRows;
  readonly down: ExpertRows;
}

async function openLayer(numericClass: BenchedClass): Promise<MoeCase> {
  const known = await bounds();
  const layout = { ...known.layout, ...numericClass.layout };
  const memory = new NamedMemory(WEIGHT_LIMITS, device);
  const formats = formatsOf((name) => (name.includes(".gate.") ? "BF16" : "F8_E4M3"));
  const moe = await allocating(
    device,
    "the experts",
    () => new Moe({ memory, layout, formats, communicator: ONE_RANK }, SHAPE, NAME),
  );
  await fillTensor(memory.named(`${NAME}.gate`), [{ kind: WORDS.smallBf16 }], 1);
  const gateUp = new ExpertRows(gateUpRows(WIDTH, layout).rows, HIDDEN, layout);
  const down = new ExpertRows(HIDDEN, WIDTH, layout);
  await gateUp.fill(memory, `${NAME} experts gate and up`);
  await down.fill(memory, `${NAME} experts down`);
  return { numericClass, known, memory, moe, gateUp, down };
}

const stepOf = (rows: number): Step => ({ ...EMPTY_STEP, rows });

async function measureRows(report: Report, layer: MoeCase, rows: number): Promise<void> {
  const { known, moe } = layer;
  const memory = new NamedMemory(device.limits, device);
  const recorder = new Recorder(device, { maxLaunches: 512 });
  try {
    const allocated = await allocating(device, `scratch of ${rows} rows`, () => ({
      scratch: allocateMoeScratch(memory, SHAPE, { maxRows: rows, hiddenStride: HIDDEN }),
      inputs: memory.allocate("activations", rows * HIDDEN * 4, "normed"),
    }));
    const { scratch, inputs } = allocated;
    const x = await madeIn(inputs, [{ kind: WORDS.f32 }], 2);
    for (const out of [scratch.intermediate, scratch.output]) {
      await fillTensor(out, [{ kind: WORDS.nan }], 0);
    }
    const plan = new Plan<Step>(recorder);
    const normed = { x: x.tensor, xStride: HIDDEN };
    moe.compile(plan, {
      ...{ scratch, normed, quantized: normed, hiddenStride: HIDDEN },
      rounding: E4M3_BLOCKS,
    });
    await recorder.pipelines.ready();
    const launches = await catchLaunches(recorder, () => plan.run(stepOf(rows)));
    const experts = await checkExperts(layer, { scratch, x, rows });

    const bytes = bytesOf(layer, experts.size, rows);
    const pairs = rows * SLOTS;
    const flops = {
      router: 2 * rows * HIDDEN * SHAPE.routed,
      expert_gate_up: 4 * pairs * HIDDEN * WIDTH,
      expert_down: 2 * pairs * HIDDEN * WIDTH,
    };
    const title = `${layer.numericClass.name}, ${rows} (${experts.size} experts)`;
    let sum = 0;
    for (const { label, grid, launches: alike } of kindsOfLaunches(launches)) {
      const seconds = await secondsOf([
        (pass) => {
          for (const { encode } of alike) encode(pass);
        },
      ]);
      sum += seconds;
      const kernel = label.slice(0, label.indexOf(" "));
      const name = kernel.slice(kernel.indexOf("/") + 1).replace("matrix_", "");
      const part = name === "linear" ? "router" : name;
      const known = part in flops ? (part as keyof typeof flops) : undefined;
      const work = known && { bytes: bytes[known], flops: flops[known] };
      const count = alike.length > 1 ? `${alike.length} of ` : "";
      report.line([title, `${count}${kernel} ${grid}`, ...cellsOf(seconds, work, layer.known)]);
    }
    const whole = await secondsOf([
      (pass) => {
        for (const { encode } of launches) encode(pass);
      },
    ]);
    const total = (of: Readonly<Record<string, number>>) =>
      Object.values(of).reduce((a, b) => a + b, 0);
    const work = { bytes: total(bytes), flops: total(flops) };
    report.line([title, "all, in one pass", ...cellsOf(whole, work, known)]);
    report.line([title, "all, each alone", ...cellsOf(sum, work, known)]);
  } finally {
    memory.destroy();
    recorder.destroy();
  }
}

function cellsOf(
  seconds: number,
  work: { readonly bytes: number; readonly flops: number } | undefined,
  rates: Bounds,
): string[] {
  if (work === undefined) return [micros(seconds)];
  const { bytes, flops } = work;
  return [
    ...[micros(seconds), (bytes / seconds / 1e9).toFixed(1), (flops / seconds / 1e9).toFixed(0)],
    percent(boundSeconds(work, rates), seconds),
  ];
}

/** What the launches must move: weights of the experts that were chosen, and rows in and out. */
function bytesOf({ gateUp, down }: MoeCase, experts: number, rows: number) {
  const pairs = rows * SLOTS;
  return {
    router: 2 * HIDDEN * SHAPE.routed + 4 * rows * (HIDDEN + SHAPE.routed),
    expert_gate_up: experts * gateUp.bytes + 4 * (rows * HIDDEN + pairs * WIDTH),
    expert_down: experts * down.bytes + 4 * pairs * (WIDTH + HIDDEN),
  };
}

/**
 * Follows the first and the last pair of a row through its expert in f64.
 *
 * @returns The experts that rows chose, shared ones included.
 */
async function checkExperts(
  { numericClass, known, gateUp, down }: MoeCase,
  { scratch, x, rows }: { scratch: MoeScratch; x: MadeTensor; rows: number },
): Promise<ReadonlySet<number>> {
  const chosen = await wordsOf(scratch.experts, 0, rows * SLOTS);
  const { upRow } = gateUpRows(WIDTH, known.layout);
  for (const pair of [0, rows * SLOTS - 1]) {
    const row = Math.floor(pair / SLOTS);
    const own = new Set(chosen.subarray(row * SLOTS, (row + 1) * SLOTS));
    expect(own.size, `experts of row ${row}`).toBe(SLOTS);
    const expert = chosen[pair]!;
    expect(expert).toBeLessThan(SHAPE.routed + SHAPE.shared);

    const input = Float64Array.from({ length: HIDDEN }, (_, k) => x.float(row * HIDDEN + k));
    const first = gateUp.of(expert);
    const group = Array.from({ length: 128 }, (_, i) => WIDTH - 128 + i);
    const gated = group.map((i) => {
      const gate = first.dot(i, input);
      return (gate / (1 + Math.exp(-gate))) * first.dot(upRow + i, input);
    });
    const middle = await floatsOf(scratch.intermediate, pair * scratch.intermediateStride, WIDTH);
    const largest = Math.max(...gated.map(Math.abs));
    const where = `pair ${pair}, expert ${expert}`;
    for (const [i, want] of gated.entries()) {
      const off = Math.abs(middle[WIDTH - 128 + i]! - want);
      const most = ROUNDED_TOLERANCE * Math.max(Math.abs(want), largest / 448);
      expect(off, `${where}, intermediate ${i} of ${want}`).toBeLessThanOrEqual(most);
    }

    const second = down.of(expert);
    const places = [0, 1, HIDDEN >> 1, HIDDEN - 9, HIDDEN - 1];
    const out = await floatsOf(scratch.output, pair * HIDDEN, HIDDEN);
    expectNear(
      places.map((place) => out[place]!),
      places.map((place) => second.dot(place, middle)),
      { tolerance: numericClass.tolerance, where },
    );
    expect(out.some(Number.isNaN), `${where}: outputs that no kernel wrote`).toBe(false);
  }
  return new Set(chosen);
}

export function moeSection(): void {
  describe("experts", () => {
    const { routed, perToken } = SHAPE;
    const sizes = `${HIDDEN} to ${WIDTH}, ${perToken} of ${routed} and one shared`;
    const header = ["class, rows", "launch", "us", "GB/s", "GFLOP/s", "of bound"];
    const report = new Report(`Experts in FP8, ${sizes}`, header);
    let layer: MoeCase | undefined;
    /** One at a time: two would not fit. */
    const open = async (numericClass: BenchedClass) => {
      if (layer?.numericClass === numericClass) return layer;
      layer?.memory.destroy();
      layer = await openLayer(numericClass);
      return layer;
    };
    afterAll(() => {
      layer?.memory.destroy();
      report.finish();
    });
    for (const numericClass of [FMA128, ...MATRIX_CLASSES.slice(0, 1)]) {
      for (const rows of numericClass === FMA128 ? ROWS : MATRIX_ROWS) {
        const run = async () => measureRows(report, await open(numericClass), rows);
        test(`${rows} rows of experts, ${numericClass.name}`, run, TIMEOUT);
      }
    }
  });
}

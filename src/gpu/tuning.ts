/**
 * How the kernels over weights and of attention are launched, adapter by adapter: the one table that
 * says so.
 *
 * A tuning chooses how a weight matrix lies on the GPU and how work is shared out. It never
 * changes a bit of a result.
 *
 * @module
 */
/** One way to share a launch out. */
export interface RowForm {
  /**
   * Activation rows of an invocation, in a staged form those of a workgroup: weights are read once
   * for so many.
   */
  readonly tokens: number;
  /** Invocations that share the columns of a weight row. */
  readonly split: number;
  /** Invocations of a workgroup, where a kernel leaves the choice. */
  readonly workgroup: number;
  /**
   * Whether a workgroup decodes its weights into its own memory, and all its invocations multiply
   * from there. `split` is 1 then. Default false.
   */
  readonly staged?: boolean;
  /** Activation rows of an invocation of a staged form: 2 or 4. Default `STAGED_TOKENS`. */
  readonly ownTokens?: number;
  /**
   * Pieces of each weight row that an invocation of a form that is not staged reads before it decodes
   * any of them: more wait for memory once, and take registers. Default 2.
   */
  readonly piecesAtOnce?: number;
  /** Time of one pass over the weights for `tokens` rows; that of the first form is 1. */
  readonly cost: number;
}

export const STAGED_TOKENS = 4;

/** Pairs of an expert's tile. */
export const PAIR_TILE = 4;

/** How the work of attention is shared out. Heads of a workgroup share what it reads of the cache. */
export interface AttentionTuning {
  /** Query heads of a workgroup at most, for a generated row that stands alone. */
  readonly rowHeads: number;
  /** The same for each of the generated rows of one sequence that share reads. */
  readonly groupHeads: number;
  /** The same for each row of a prompt. */
  readonly promptHeads: number;
  /**
   * Whether generated rows of one sequence share what they read of the cache, in a pipeline of their
   * own, as they always do where prompts run in their form, or drafts are verified. Default false.
   */
  readonly sharesReads?: boolean;
  /**
   * Workgroups that keep the adapter busy: where generated rows that stand alone have fewer, each has
   * one head, in a pipeline of its own. Default 0: a CPU is busy with a few.
   */
  readonly fill?: number;
  /** Invocations of a workgroup, where it is no subgroup. */
  readonly lanes: number;
  /**
   * Whether loops over queries and columns are written out, so that sums stay in registers. Compiles for
   * longer, and a CPU has no registers for it. Default false.
   */
  readonly unrolls?: boolean;
  /** Whether a workgroup is one subgroup, where their size is known, and nothing goes through memory. */
  readonly subgroups: boolean;
}

/**
 * Where the scales of a weight lie: those of a group of columns behind one another for all rows, or
 * those of rows whose words lie side by side behind one another for all groups.
 */
export type ScaleOrder = "byGroup" | "byRun";

export interface Tuning {
  /** Neighbouring weight rows that neighbouring invocations multiply at once. */
  readonly lanes: number;
  /**
   * Weight rows of each of these lanes whose words lie side by side, of the four that an invocation
   * multiplies: 1, 2 or 4. Default 1.
   */
  readonly rowsPerLane?: number;
  /** Default "byGroup". */
  readonly scaleOrder?: ScaleOrder;
  /** Ascending in `tokens`, from 1. A launch takes the form that is through its rows the soonest. */
  readonly rowForms: readonly RowForm[];
  /** In place of `rowForms` for weights of these dtypes. */
  readonly dtypeForms?: Readonly<Record<string, readonly RowForm[]>>;
  /**
   * Invocations that keep the adapter busy: a launch of fewer takes as long as one of so many, which
   * forms that share columns out reach with fewer rows. Default 0: a CPU is busy with a few.
   */
  readonly fill?: number;
  /**
   * Whether invocations read activations for themselves where those of a subgroup could share what they
   * read: a GPU's loads of one address are one already. Default false.
   */
  readonly readsAlone?: boolean;
  /**
   * Whether launches that add to the residual stream write what the next norm makes of it too, and
   * those of attention over generated rows the entries of a grouped-query cache: fewer launches, each
   * with more to do. Default false.
   */
  readonly foldsNorms?: boolean;
  /**
   * Whether the output head finds the best logit of each row itself where no request wants the
   * other logits: no logits to memory and back, for pipelines of its own. Default false.
   */
  readonly findsBest?: boolean;
  /**
   * Whether the GPU puts the words of weights in the order of their layout while they are uploaded, as
   * it always does with AWQ and GPTQ, and the host only copies bytes. Default false.
   */
  readonly repacks?: boolean;
  /**
   * Whether an adapter runs the invocations of a workgroup one after another, as a CPU does: activation
   * rows that a form has room for and a launch over experts has not are left out by branches then, so
   * that few rows of an expert share its weights, and a workgroup that sorts few rows is small. Default
   * false.
   */
  readonly sequential?: boolean;
  /**
   * Pairs of an expert that an invocation multiplies at once, where no form is staged: 2 or 4. More
   * would leave more of a tile empty, as each expert has few. Default `PAIR_TILE`.
   */
  readonly pairTile?: number;
  /** Default: that of the adapter's row below. */
  readonly attention?: AttentionTuning;
}

/** What a tuning may choose from. */
export const TUNING_CHOICES = {
  lanes: [8, 16, 32],
  rowsPerLane: [1, 2, 4],
  scaleOrder: ["byGroup", "byRun"],
  tokens: [1, 2, 4, 8],
  stagedTokens: [16, 32, 64],
  ownTokens: [2, 4],
  pairTile: [2, 4],
  split: [1, 2, 4, 8, 16, 32],
  workgroup: [8, 16, 32, 64, 128, 256],
  piecesAtOnce: [1, 2],
  rowHeads: [1, 2, 4, 8, 16],
  groupHeads: [1, 2, 4],
  promptHeads: [1, 2],
} as const;

/** Forms that share nothing out, of 1, 2, 4 and, if there is a fourth cost, 8 rows. */
function alone(...costs: readonly number[]): RowForm[] {
  return costs.map((cost, i) => ({ tokens: 2 ** i, split: 1, workgroup: 8, cost }));
}

/**
 * Measured on llvmpipe and SwiftShader by processor time (`bench/attention.bench.ts`), whose loads
 * cost the most: half as many heads of a workgroup take 11 to 32 % longer. A row's sixteen heads in
 * one workgroup take 10 to 13 % less, but leave all cores but one idle in a short context. Rows of one
 * sequence share no reads unless prompts or drafts do: they would take 27 to 30 % less, but their pipeline
 * compiles twice as long as that of rows alone, a tenth of the embedded model's cold start.
 */
const FEW_LANES: AttentionTuning = {
  rowHeads: 8,
  groupHeads: 4,
  promptHeads: 2,
  lanes: 8,
  subgroups: true,
};

/** Of GPUs, where pipelines compile soon. */
const MANY_LANES = { promptHeads: 1, sharesReads: true, lanes: 32, unrolls: true, subgroups: true };

/** One row at a time or four, nothing shared out: what every adapter can do. */
export const PLAIN_TUNING: Tuning = {
  lanes: 8,
  rowForms: [
    { tokens: 1, split: 1, workgroup: 8, cost: 1 },
    { tokens: 4, split: 1, workgroup: 8, cost: 2 },
  ],
  attention: FEW_LANES,
};

/**
 * Measured on two cores with AVX-512 (`bench/linear.bench.ts`): an invocation costs nothing to
 * start, and loads cost the most, so that each invocation does as much as it can. Folded norms take
 * about as long as launches of their own, and an output head that finds the best itself makes a
 * step no faster. Eight rows need more registers than there are, which dtypes that are quick to
 * decode make up for. In FP8 they are 12 to 19 % faster than four all the same, but compile for long:
 * three more pipelines of the embedded model take a fifth more of its cold start. In which order words
 * lie makes no difference beyond noise here, nor on SwiftShader.
 */
const LAVAPIPE: Tuning = {
  lanes: 8,
  foldsNorms: true,
  sequential: true,
  rowForms: alone(1, 1.15, 1.75),
  dtypeForms: {
    bf16: alone(1, 1.13, 1.5, 2.35),
    int8: alone(1, 1.15, 1.8, 3.2),
    int4: alone(1, 1.25, 1.9, 3.45),
  },
  attention: FEW_LANES,
};

/**
 * SwiftShader compiles a pipeline as soon as it is made, and slowly: so there are few. Folded norms
 * take about as long there as launches of their own (62 to 69 ms of processor time a step of the
 * embedded model, and 64). Microsoft's driver for the CPU has the same, unmeasured.
 */
const FEW_PIPELINES: Tuning = { ...PLAIN_TUNING, foldsNorms: true };

/** Of GPUs: where an invocation's four rows lie together, and the scales with them. */
const IN_RUNS = { lanes: 8, rowsPerLane: 4, scaleOrder: "byRun" } as const;

/**
 * Costs, `fill` and `readsAlone` are measured on an H200 (`bench/gpu.bench.ts`, FP8 and BF16 of
 * 7168x2048): where it is busy, passes take 3.2, 4.8, 9.1 and 16 times that of one row. Eight rows take
 * 9 times as long in the form of eight as in two passes of four, as there are too few workgroups: it
 * wants 20,000 to 50,000 invocations. A GPU with fewer cores is full sooner, which is why `fill` is
 * less. Experts whose invocations share what they read by shuffles take up to 3.8 times as long as where
 * each reads for itself. The rest was not measured: lanes are reasoned from cache lines of 128 bytes, which eight fill,
 * and from the tens of thousands of invocations that a GPU wants where a layer of 2048 outputs has 512
 * runs of four rows. `wisp tune` measures.
 *
 * Adapters that are a CPU have no staged forms: there a staged pass for 64 rows takes 4 to 5.5 times as
 * long as eight rows an invocation (llvmpipe), and one for 32 rows 1.7 times as long as four
 * (SwiftShader), by processor time (`bench/linear.bench.ts`).
 *
 * The order of words is reasoned: what eight invocations read of their four rows at once is one piece
 * of 512 bytes in place of four far apart, all from one address, and the scales of the next columns are
 * the next line in place of one that is a power of two of bytes away, as rows often are.
 *
 * So is attention: a query takes about twelve registers of four, so that eight queries are what an
 * invocation has room for, and a prompt's rows are eight already.
 */
const MANY_INVOCATIONS: Tuning = {
  ...IN_RUNS,
  foldsNorms: true,
  findsBest: true,
  repacks: true,
  rowForms: [
    { tokens: 1, split: 16, workgroup: 128, cost: 1 },
    { tokens: 4, split: 16, workgroup: 128, cost: 3.2 },
    { tokens: 8, split: 1, workgroup: 64, cost: 4.8 },
    { tokens: 16, split: 1, workgroup: 64, staged: true, cost: 9.1 },
    { tokens: 32, split: 1, workgroup: 128, staged: true, cost: 16 },
  ],
  fill: 16_384,
  readsAlone: true,
  attention: { ...MANY_LANES, rowHeads: 8, groupHeads: 2 },
};

/**
 * As above for GPUs with few and narrow cores, which smaller workgroups fill better, and with half
 * the registers.
 */
const FEW_CORES: Tuning = {
  ...IN_RUNS,
  foldsNorms: true,
  findsBest: true,
  repacks: true,
  rowForms: [
    { tokens: 1, split: 8, workgroup: 64, cost: 1 },
    { tokens: 4, split: 4, workgroup: 64, cost: 1.4 },
    { tokens: 8, split: 1, workgroup: 64, cost: 2.4 },
    { tokens: 32, split: 1, workgroup: 128, staged: true, cost: 6.5 },
  ],
  fill: 4096,
  attention: { ...MANY_LANES, rowHeads: 4, groupHeads: 1 },
};

/**
 * What AMD's compiler makes of forms (`npm run gpu-code`): eight rows an invocation spill, and are 28
 * waves of 7168 outputs where a large card has room for thousands. Four rows that read two pieces at once
 * leave registers for fewer than eight waves, and so does workgroup memory where a staged form's workgroup
 * is one wave. A large card has 96 compute units, of two workgroups each at least.
 */
const AMD: Tuning = {
  ...MANY_INVOCATIONS,
  rowForms: [
    { tokens: 1, split: 16, workgroup: 128, cost: 1 },
    { tokens: 4, split: 16, workgroup: 128, piecesAtOnce: 1, cost: 3.2 },
    { tokens: 16, split: 1, workgroup: 128, staged: true, cost: 9.1 },
    { tokens: 32, split: 1, workgroup: 256, staged: true, cost: 16 },
  ],
  attention: { ...MANY_LANES, rowHeads: 4, groupHeads: 1, fill: 192 },
};

const INTEL_FORMS: readonly RowForm[] = [
  { tokens: 1, split: 8, workgroup: 64, piecesAtOnce: 1, cost: 1 },
  { tokens: 16, split: 1, workgroup: 64, staged: true, ownTokens: 2, cost: 4 },
  { tokens: 32, split: 1, workgroup: 128, staged: true, ownTokens: 2, cost: 6.5 },
];

/**
 * What Intel's compiler makes of forms (`npm run gpu-code`): four rows an invocation have more sums than
 * a thread has registers, of 8 invocations as of 16, and so have two where weights are decoded, or
 * two pieces of a weight row at once. Attention in the registers of a subgroup takes no fewer
 * instructions.
 */
const INTEL: Tuning = {
  ...FEW_CORES,
  rowForms: INTEL_FORMS,
  dtypeForms: {
    bf16: [
      INTEL_FORMS[0]!,
      { tokens: 2, split: 8, workgroup: 64, piecesAtOnce: 1, cost: 1.4 },
      ...INTEL_FORMS.slice(1),
    ],
  },
  pairTile: 2,
  attention: { ...MANY_LANES, rowHeads: 4, groupHeads: 1, subgroups: false, unrolls: false },
};

interface AdapterRow {
  readonly name: string;
  /** Found in the vendor, architecture, device or description, in lower case. */
  readonly words: readonly string[];
  readonly tuning: Tuning;
  /**
   * Invocations of a subgroup that all kernels ask for, where the adapter lets them. Default: as the
   * browser or Dawn has it, which is the size that most of its registers fit.
   */
  readonly subgroupSize?: number;
}

/** The first row that fits counts. */
export const ADAPTER_TUNINGS: readonly AdapterRow[] = [
  { name: "llvmpipe", words: ["llvmpipe"], tuning: LAVAPIPE },
  { name: "SwiftShader", words: ["swiftshader"], tuning: FEW_PIPELINES },
  { name: "Microsoft Basic Render Driver", words: ["basic render"], tuning: FEW_PIPELINES },
  { name: "NVIDIA", words: ["nvidia"], tuning: MANY_INVOCATIONS },
  { name: "AMD", words: ["amd", "radv"], tuning: AMD },
  { name: "Apple", words: ["apple"], tuning: MANY_INVOCATIONS },
  { name: "Intel", words: ["intel"], tuning: INTEL, subgroupSize: 8 },
  { name: "Qualcomm", words: ["qualcomm", "adreno"], tuning: FEW_CORES },
  { name: "ARM", words: ["arm", "mali"], tuning: FEW_CORES },
];

/** Of adapters that no row knows, as browsers that tell nothing have. */
export const DEFAULT_TUNING = MANY_INVOCATIONS;

export type AdapterIdentity = Pick<
  GPUAdapterInfo,
  "vendor" | "architecture" | "device" | "description"
>;

function names(
  { vendor, architecture, device, description }: AdapterIdentity,
  word: string,
): boolean {
  const text = `${vendor} ${architecture} ${device} ${description}`.toLowerCase();
  return new RegExp(`(^|[^a-z])${word}([^a-z]|$)`).test(text);
}

function rowFor(info: AdapterIdentity): AdapterRow | undefined {
  return ADAPTER_TUNINGS.find(({ words }) => words.some((word) => names(info, word)));
}

export function tuningFor(info: AdapterIdentity): Tuning {
  return rowFor(info)?.tuning ?? DEFAULT_TUNING;
}

/** Invocations of a subgroup that all kernels ask for; undefined where none does. */
export function askedSubgroupSize(info: AdapterIdentity): number | undefined {
  return rowFor(info)?.subgroupSize;
}

/** How attention is shared out where nothing else is said. */
export function attentionTuning(info: AdapterIdentity): AttentionTuning {
  return tuningFor(info).attention ?? FEW_LANES;
}

/**
 * Adapters on which sums of int8 products take longer than sums in f32: llvmpipe 1.1 to 1.7 times for 64
 * rows, about as long for one (SwiftShader takes 0.5 to 0.7 of the time); others say the same of
 * Apple's.
 */
const SLOW_PACKED_DOTS = ["llvmpipe", "apple"];

/**
 * Whether int8 weights are to meet activations as int8 codes here, where both are rounded so. No
 * part of a tuning: it changes bits.
 */
export function takesPackedDots(info: AdapterIdentity): boolean {
  return !SLOW_PACKED_DOTS.some((word) => names(info, word));
}

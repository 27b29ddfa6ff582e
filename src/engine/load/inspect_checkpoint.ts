/**
 * What a checkpoint's headers and config tell about its model: sizes, and how many devices hold it.
 *
 * No weight is read and no device is asked for. Of a checkpoint that is not all there, what
 * config.json alone can tell.
 *
 * @module
 */
import { bytesPerToken, type CacheDtype } from "../../cache/kv_cache.ts";
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { type ConfigReader, readConfig } from "../../checkpoint/config.ts";
import { isJsonObject, readOptionalJson } from "../../checkpoint/json_file.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import { detectQuantization } from "../../checkpoint/quantization_config/detect_quantization.ts";
import {
  checkQuantizationOption,
  type UploadTarget,
} from "../../checkpoint/quantization_option.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import type { Dtype } from "../../dtype.ts";
import { CheckpointError, InvalidRequestError, UnsupportedError } from "../../errors.ts";
import { MatrixFormats } from "../../layers/weights/matrix_format.ts";
import { architectureOf } from "../../models/architectures.ts";
import { kvCacheShape, type ModelDefinition, type ModelFacts } from "../../models/model.ts";
import { inAttentionGroups } from "../../parallel/attention_groups.ts";
import { absentGroup, MOST_RANKS } from "../../parallel/communicator.ts";
import type {
  CheckpointReport,
  Demand,
  InspectOptions,
  RanksReport,
  StoredBytes,
  WeightsReport,
} from "../checkpoint_report.ts";
import { withExportedLayer } from "../draft_model/exported_layer.ts";
import { type DraftReport, inspectDraft } from "../draft_model/inspect_draft.ts";
import { MIN_CONTEXT, type VisionBytes } from "./memory_budget.ts";
import {
  configFormats,
  countParameters,
  devicesFor,
  layOut,
  WEIGHT_TYPES,
  weightTypeBytes,
} from "./sizing.ts";
import { copiesOfCache } from "./start_sizes.ts";

const GIB = 2 ** 30;
const DEVICE_MEMORIES = [8 * GIB, 24 * GIB, 80 * GIB, 141 * GIB] as const;
const UPLOAD_VALUES = ["fp8", "int8", "int4"] as const;
const SINGLE_FILE = "model.safetensors";
const INDEX_FILE = "model.safetensors.index.json";
/** `torch_dtype` of config.json. */
const PLAIN_DTYPES: ReadonlyMap<string, Dtype> = new Map([
  ["float32", "F32"],
  ["float16", "F16"],
  ["bfloat16", "BF16"],
]);

/**
 * @throws {CheckpointError | UnsupportedError} when config.json is missing, wrong or of a model that
 * is not supported. Missing or damaged weights are told in the report.
 * @throws {InvalidRequestError} naming an option that is out of range, or a draft model that does not
 * fit.
 */
export async function inspectCheckpoint(
  given: WeightSource,
  asked: InspectOptions = {},
): Promise<CheckpointReport> {
  const speculation = { algorithm: "EAGLE" } as const;
  const { source, options } = await withExportedLayer(given, { ...asked, speculation });
  const config = await readConfig(source);
  const plain = PLAIN_DTYPES.get(torchDtype(config) ?? "") ?? "BF16";
  const quantization = await detectQuantization(source, config);
  const definition = architectureOf(config).define(config, quantization);
  const { facts, shape } = definition;
  const { attention, experts, tiedEmbeddings } = facts;
  const perToken = (dtype: CacheDtype) => bytesPerToken(kvCacheShape(shape, dtype));
  const draft = options.draftModel && (await inspectDraft(options.draftModel, definition));
  const tokenBytes = perToken("bf16") + (draft?.cacheBytesPerToken.bf16 ?? 0);
  const demand = demandOf(options, shape.contextLength, tokenBytes);
  const opened = await open(source);
  const held = opened instanceof Checkpoint ? opened : undefined;
  const published = publish(definition, held, { quantization, plain });
  const { tensorParallelSize = 1 } = options;
  const ranks =
    tensorParallelSize > 1 && (await ranksOf(source, { options, published, quantization, demand }));
  return {
    ...(ranks && { ranks }),
    name: source.name,
    architecture: definition.architecture,
    layers: shape.layers,
    hiddenSize: shape.hiddenSize,
    attention,
    contextLength: shape.contextLength,
    vocabularySize: shape.vocabularySize,
    experts: experts && pick(experts),
    tiedEmbeddings,
    draftLayers: shape.draftLayers,
    quantization,
    parameters: countParameters(definition),
    stored: held && storedBytes(held, published.wanted),
    missing: held ? [] : await missingFiles(source),
    problem: opened instanceof CheckpointError ? opened.message : published.problem,
    cacheBytesPerToken: {
      bf16: perToken("bf16"),
      f32: perToken("f32"),
      fp8: perToken("fp8_e4m3"),
    },
    ...(draft && { draft }),
    ...(published.vision && { vision: published.vision }),
    demand,
    weights: weightsOf(published, definition, { demand, options, tokenBytes, draft }),
  };
}

interface RankDemand {
  readonly options: InspectOptions;
  readonly published: Published;
  readonly quantization: Quantization;
  readonly demand: Demand;
}

/** All ranks hold as much as the first. */
async function ranksOf(
  source: WeightSource,
  { options, published, quantization, demand }: RankDemand,
): Promise<RanksReport> {
  const { tensorParallelSize: size = 1, attentionGroups = 1 } = options;
  const communicator = inAttentionGroups(absentGroup(size), attentionGroups);
  const ranks = { communicator, formats: published.formats() };
  // Each field of a config is read once.
  const config = await readConfig(source);
  const definition = architectureOf(config).define(config, quantization, ranks);
  const cacheBytes =
    demand.contextLength *
    Math.ceil(demand.concurrency / attentionGroups) *
    bytesPerToken(kvCacheShape(definition.shape, "bf16"));
  const cacheCopies = copiesOfCache(definition.facts, { communicator });
  const held = { size, attentionGroups, cacheBytes, cacheCopies };
  const whole = {
    headByGroup: options.headByGroup ?? false,
    wholeDense: options.wholeDenseLayers ?? false,
  };
  try {
    const { model, weightBytes } = layOut(definition, published.formats(), whole);
    return { ...held, gpuBytes: weightBytes, unshared: model.unshared };
  } catch (error) {
    // The same that is said of the whole.
    problemOf(error);
    return { ...held, gpuBytes: undefined, unshared: [] };
  }
}

/** Not a field of its own: every reader of the config may pass it over. */
function torchDtype(config: ConfigReader): string | undefined {
  const older = config.string("torch_dtype", { fallback: undefined });
  return config.string("dtype", { fallback: older });
}

/** Without what an architecture keeps beside the numbers. */
function pick({ routed, perToken, shared }: NonNullable<ModelFacts["experts"]>) {
  return { routed, perToken, shared };
}

function demandOf(options: InspectOptions, modelContext: number, bytesPerToken: number): Demand {
  const { contextLength = modelContext, concurrency = 1, memFractionStatic = 0.88 } = options;
  const { tensorParallelSize = 1, attentionGroups = 1 } = options;
  const refuse = (field: keyof InspectOptions, rule: string) => {
    throw new InvalidRequestError(
      `Cannot use ${field} ${options[field]}: it must be ${rule}`,
      field,
    );
  };
  const isWhole = Number.isSafeInteger;
  if (!isWhole(contextLength) || contextLength < MIN_CONTEXT || contextLength > modelContext) {
    refuse("contextLength", `a whole number from ${MIN_CONTEXT} to ${modelContext}`);
  }
  if (!isWhole(concurrency) || concurrency < 1) {
    refuse("concurrency", "a whole number of at least 1");
  }
  if (!isWhole(tensorParallelSize) || tensorParallelSize < 1 || tensorParallelSize > MOST_RANKS) {
    refuse("tensorParallelSize", `a whole number from 1 to ${MOST_RANKS}`);
  }
  if (!isWhole(attentionGroups) || attentionGroups < 1 || tensorParallelSize % attentionGroups) {
    refuse("attentionGroups", `a divisor of tensorParallelSize ${tensorParallelSize}`);
  }
  if (!(memFractionStatic > 0 && memFractionStatic <= 1)) {
    refuse("memFractionStatic", "above 0 and at most 1");
  }
  if (options.deviceMemory?.some((bytes) => !isWhole(bytes) || bytes < 1)) {
    refuse("deviceMemory", "whole numbers of at least 1");
  }
  const cacheBytes = contextLength * concurrency * bytesPerToken;
  return { contextLength, concurrency, cacheBytes, memFractionStatic };
}

async function open(source: WeightSource): Promise<Checkpoint | CheckpointError> {
  try {
    return await Checkpoint.open(source);
  } catch (error) {
    if (error instanceof CheckpointError) return error;
    throw error;
  }
}

interface Published {
  readonly gpuBytes: number | undefined;
  readonly vision: VisionBytes | undefined;
  readonly problem: string | undefined;
  /** Names of the tensors that the model reads. */
  readonly wanted: ReadonlySet<string>;
  readonly formats: (uploadTo?: UploadTarget) => MatrixFormats;
  /** Values of `--quantization` that make less of the weights. */
  readonly uploads: ReadonlyMap<string, UploadTarget>;
}

function publish(
  definition: ModelDefinition,
  checkpoint: Checkpoint | undefined,
  given: { readonly quantization: Quantization; readonly plain: Dtype },
): Published {
  const { quantization, plain } = given;
  const tensors = checkpoint?.tensors;
  const formats = (uploadTo?: UploadTarget) =>
    tensors === undefined
      ? configFormats(quantization, { plain, uploadTo })
      : new MatrixFormats({ tensor: (name) => tensors.get(name), quantization, uploadTo });
  const matrix = [...(tensors ?? [])].find(([name]) => name.endsWith("_proj.weight"))?.[1];
  const uploads = uploadTargets(quantization, matrix?.dtype ?? plain);
  let gpuBytes: number | undefined;
  let vision: VisionBytes | undefined;
  let wanted: ReadonlySet<string> = new Set();
  try {
    const { model, weightBytes, vision: seen } = layOut(definition, formats());
    gpuBytes = weightBytes;
    vision = seen;
    wanted = new Set(model.specs.map(({ name }) => name));
    checkpoint?.check(model.specs, { ignored: (name) => model.ignores(name) });
    return { gpuBytes, vision, problem: undefined, wanted, formats, uploads };
  } catch (error) {
    return { gpuBytes, vision, problem: problemOf(error), wanted, formats, uploads };
  }
}

function uploadTargets(quantization: Quantization, dtype: string): Map<string, UploadTarget> {
  const targets = new Map<string, UploadTarget>();
  // Weights in FP8 may lack a method, and nothing is quantized twice.
  if (quantization.method !== "none" || ![...PLAIN_DTYPES.values()].some((one) => one === dtype)) {
    return targets;
  }
  for (const value of UPLOAD_VALUES) {
    const { uploadTo } = checkQuantizationOption(value, quantization, dtype);
    if (uploadTo !== undefined) targets.set(value, uploadTo);
  }
  return targets;
}

/** The sentence of an error that belongs into the report; any other is thrown on. */
function problemOf(error: unknown): string {
  if (error instanceof UnsupportedError || error instanceof CheckpointError) return error.message;
  throw error;
}

function storedBytes({ tensors }: Checkpoint, wanted: ReadonlySet<string>): StoredBytes {
  const byDtype: Record<string, number> = {};
  let total = 0;
  let unused = 0;
  for (const [name, { dtype, byteLength }] of tensors) {
    byDtype[dtype] = (byDtype[dtype] ?? 0) + byteLength;
    total += byteLength;
    if (!wanted.has(name)) unused += byteLength;
  }
  return { total, byDtype, unused };
}

/** The weights that are named somewhere and are not there. */
async function missingFiles(source: WeightSource): Promise<readonly string[]> {
  const present = new Set((await source.list()).map(({ name }) => name));
  if (present.has(SINGLE_FILE)) return [];
  // An index that is no JSON is what opening has failed at.
  const index = await readOptionalJson(source, INDEX_FILE).catch(() => ({}));
  if (index === undefined) return [SINGLE_FILE];
  const map = isJsonObject(index) && isJsonObject(index.weight_map) ? index.weight_map : {};
  const shards = new Set(Object.values(map).filter((name) => typeof name === "string"));
  return [...shards].filter((name) => !present.has(name)).sort();
}

function weightsOf(
  { gpuBytes, vision, problem, formats, uploads }: Published,
  definition: ModelDefinition,
  {
    demand,
    options,
    tokenBytes,
    draft,
  }: {
    readonly demand: Demand;
    readonly options: InspectOptions;
    readonly tokenBytes: number;
    readonly draft: DraftReport | undefined;
  },
): WeightsReport[] {
  const { contextLength, concurrency, memFractionStatic } = demand;
  const memories = options.deviceMemory ?? DEVICE_MEMORIES;
  const devices = (weightBytes: number) =>
    memories.map((deviceMemory) => ({
      deviceMemory,
      fit: devicesFor({
        weightBytes: weightBytes + (draft?.gpuBytes ?? 0),
        fixedBytes: vision?.activationBytes ?? 0,
        bytesPerToken: tokenBytes,
        tokens: contextLength * concurrency,
        deviceMemory,
        memFractionStatic,
        attention: definition.facts.attention,
      }),
    }));
  const measured = (form: string, kind: WeightsReport["kind"], measure: () => number) => {
    try {
      const gpuBytes = measure();
      return { form, kind, gpuBytes, problem: undefined, devices: devices(gpuBytes) };
    } catch (error) {
      return { form, kind, gpuBytes: undefined, problem: problemOf(error), devices: [] };
    }
  };
  const published: WeightsReport = {
    form: "published",
    kind: "published",
    gpuBytes,
    problem: gpuBytes === undefined ? problem : undefined,
    devices: gpuBytes === undefined ? [] : devices(gpuBytes),
  };
  const uploaded = [...uploads].map(([value, uploadTo]) =>
    measured(value, "upload", () => layOut(definition, formats(uploadTo)).weightBytes),
  );
  const shaped = WEIGHT_TYPES.map((type) =>
    measured(type, "shape", () => weightTypeBytes(definition, type)),
  );
  return [published, ...uploaded, ...shaped];
}

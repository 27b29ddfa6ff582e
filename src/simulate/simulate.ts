/**
 * What a model would do on devices that are not there: the memory plan that a start would make, and how
 * long steps would take.
 *
 * @module
 */
import type { WeightSource } from "../checkpoint/source.ts";
import type { EngineOptions } from "../engine/engine_options.ts";
import type { StartSizes } from "../engine/load/start_sizes.ts";
import { InvalidRequestError } from "../errors.ts";
import { MOST_RANKS } from "../parallel/communicator.ts";
import type { AdapterProfile } from "./adapter_profile.ts";
import { DescribedModel } from "./described_model.ts";
import type { Link } from "./link.ts";
import { type StepTime, stepTime } from "./step_time.ts";

/** How devices share a model. */
export interface Layout {
  /** Ranks of a replica. */
  readonly tensorParallelSize: number;
  /** Replicas that answer requests from their beginning to their end; 0 where roles are apart. */
  readonly replicas: number;
  /** Replicas that read prompts alone, and that generate alone. */
  readonly prefillReplicas: number;
  readonly decodeReplicas: number;
}

/** What is asked of the devices. */
interface Demand {
  /** Tokens of a prompt, and of an answer. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Requests that a replica decodes together. */
  readonly batches: readonly number[];
}

export interface SimulateOptions {
  readonly profile: AdapterProfile;
  readonly link: Link;
  readonly layout: Layout;
  readonly demand: Demand;
  /** Ranks that take turns in an adapter. Default 1. */
  readonly sharing?: number;
  readonly engine: Omit<EngineOptions, "device">;
}

/** Steps that decode so many requests of a replica. */
export interface DecodeReport extends StepTime {
  readonly batch: number;
  /** Of one replica, and of all with the time that prompts take of it. */
  readonly tokensPerSecond: number;
  readonly throughput: number;
  /** Requests that all replicas answer in a second. */
  readonly requestsPerSecond: number;
}

export interface SimulationReport {
  readonly name: string;
  readonly architecture: string;
  readonly layout: Layout;
  readonly devices: number;
  readonly adapter: string;
  /** Of each device. */
  readonly memory: StartSizes;
  readonly cache: {
    /** Tokens of a replica, and of all that generate. */
    readonly tokens: number;
    readonly allTokens: number;
    /** Requests of input and output tokens that these hold. */
    readonly requests: number;
    /** Ranks of a replica that hold the same keys and values. */
    readonly copies: number;
  };
  /** The first chunk of a prompt, and all of one. */
  readonly prefill: StepTime & {
    readonly chunkTokens: number;
    readonly promptSeconds: number;
    /** Of one replica. */
    readonly tokensPerSecond: number;
    /** Of keys and values to a server that decodes, where roles are apart; else 0. */
    readonly transferSeconds: number;
  };
  readonly decode: readonly DecodeReport[];
}

/**
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the model, or not supported.
 * @throws {InvalidRequestError} naming an option that is out of range.
 * @throws {DeviceError} with figures when the model does not fit.
 */
export async function simulate(
  source: WeightSource,
  options: SimulateOptions,
): Promise<SimulationReport> {
  const { profile, link, layout, demand, sharing = 1, engine } = options;
  requireLayout(layout, sharing);
  const ranks = layout.tensorParallelSize;
  const model = await DescribedModel.open(source, { adapter: profile.adapter, ranks, engine });
  requireDemand(demand, model);
  const timed = { profile, link, ranks, sharing };
  const { sizes, definition } = model;
  const prefill = await prefillReport(model, { ...options, timed });
  const replicas = layout.replicas + layout.decodeReplicas;
  const tokensOf = demand.inputTokens + demand.outputTokens;
  const decode: DecodeReport[] = [];
  for (const batch of batchesOf(model, demand)) {
    const work = await model.decode(batch, meanContext(demand));
    const step = stepTime(work, timed);
    const requestsPerSecond = requestRate({ batch, step: step.seconds }, prefill, options);
    const tokensPerSecond = batch / step.seconds;
    const throughput = requestsPerSecond * demand.outputTokens;
    decode.push({ batch, ...step, tokensPerSecond, throughput, requestsPerSecond });
  }
  return {
    name: source.name,
    architecture: definition.architecture,
    layout,
    devices: devicesOf(layout),
    adapter: profile.name,
    memory: sizes,
    cache: {
      tokens: sizes.cacheTokens,
      allTokens: replicas * sizes.cacheTokens,
      requests: replicas * Math.floor(sizes.cacheTokens / tokensOf),
      copies: sizes.cacheCopies,
    },
    prefill,
    decode,
  };
}

export function devicesOf(layout: Layout): number {
  const { tensorParallelSize, replicas, prefillReplicas, decodeReplicas } = layout;
  return tensorParallelSize * (replicas + prefillReplicas + decodeReplicas);
}

const meanContext = ({ inputTokens, outputTokens }: Demand) =>
  inputTokens + Math.floor(outputTokens / 2);

interface TimedModel extends SimulateOptions {
  readonly timed: Parameters<typeof stepTime>[1];
}

async function prefillReport(
  model: DescribedModel,
  { demand, layout, link, timed }: TimedModel,
): Promise<SimulationReport["prefill"]> {
  const { sizes } = model;
  const { inputTokens } = demand;
  const chunkTokens = Math.min(sizes.step.promptTokens, inputTokens);
  const chunks: StepTime[] = [];
  for (let before = 0; before < inputTokens; before += chunkTokens) {
    const tokens = Math.min(chunkTokens, inputTokens - before);
    chunks.push(stepTime(await model.prefill(tokens, before), timed));
  }
  const promptSeconds = chunks.reduce((sum, { seconds }) => sum + seconds, 0);
  const pages = layout.decodeReplicas === 0 ? 0 : inputTokens * sizes.bytesPerToken;
  return {
    ...chunks[0]!,
    chunkTokens,
    promptSeconds,
    tokensPerSecond: inputTokens / promptSeconds,
    transferSeconds: pages === 0 ? 0 : link.latency + pages / link.bandwidth,
  };
}

/**
 * Requests in a second: a replica reads as many prompts as it generates answers for together, and
 * generates nothing meanwhile; where roles are apart, the slower of them says how many.
 */
export function requestRate(
  decode: { readonly batch: number; readonly step: number },
  prefill: Pick<SimulationReport["prefill"], "promptSeconds" | "transferSeconds">,
  { layout, demand }: Pick<SimulateOptions, "layout" | "demand">,
): number {
  const { batch, step } = decode;
  const answers = demand.outputTokens * step;
  const { replicas, prefillReplicas, decodeReplicas } = layout;
  const whole = (replicas * batch) / (batch * prefill.promptSeconds + answers);
  const read = prefillReplicas / Math.max(prefill.promptSeconds, prefill.transferSeconds);
  const generated = (decodeReplicas * batch) / answers;
  return whole + Math.min(read, generated);
}

/** Those that fit the cache and the limit of requests; where none does, as many as fit. */
function batchesOf({ sizes }: DescribedModel, demand: Demand): readonly number[] {
  const each = demand.inputTokens + demand.outputTokens;
  const most = Math.min(Math.floor(sizes.cacheTokens / each), sizes.requests.running);
  if (most < 1) {
    throw new InvalidRequestError(
      `Cannot simulate requests of ${each} tokens: the cache has room for ${sizes.cacheTokens}`,
      "inputTokens",
    );
  }
  const fitting = demand.batches.filter((batch) => batch <= most);
  return fitting.length > 0 ? fitting : [most];
}

function requireLayout(layout: Layout, sharing: number): void {
  const refuse = (problem: string, field: string) => {
    throw new InvalidRequestError(`Cannot simulate this layout: ${problem}`, field);
  };
  const { tensorParallelSize: ranks, replicas, prefillReplicas, decodeReplicas } = layout;
  if (ranks < 1 || ranks > MOST_RANKS) {
    refuse(`a replica has 1 to ${MOST_RANKS} ranks, not ${ranks}`, "tensorParallelSize");
  }
  const isApart = prefillReplicas > 0 && decodeReplicas > 0 && replicas === 0;
  if (!isApart && (replicas < 1 || prefillReplicas + decodeReplicas > 0)) {
    refuse("replicas answer whole requests, or some read prompts and others generate", "replicas");
  }
  if (sharing < 1 || ranks % sharing !== 0) {
    refuse(`${sharing} ranks of an adapter do not divide ${ranks}`, "sharing");
  }
}

function requireDemand(
  { inputTokens, outputTokens }: Demand,
  { contextLength: context }: DescribedModel,
): void {
  if (inputTokens + outputTokens <= context) return;
  throw new InvalidRequestError(
    `Cannot simulate requests of ${inputTokens} and ${outputTokens} tokens: a sequence has at most ${context}`,
    "inputTokens",
  );
}

/**
 * From a picked model to an engine that answers: download, sizes, choice of the form, start.
 *
 * @module
 */
import {
  type CheckpointReport,
  inspectCheckpoint,
  type LoadingProgress,
  type RecoveryEvent,
  type SpeculationOptions,
} from "wisp-llm";
import {
  type ArrivedPages,
  loadWorkerEngine,
  type ModelAddress,
  openModel,
  openModelStore,
  type StoreProgress,
  type WorkerEngine,
} from "wisp-llm/browser";
import { chooseFit, type Fit, sizesOf } from "./fit.ts";
import type { LoadWishes } from "./load_wishes.ts";
import { type ModelChoice, nameOf } from "./model_choice.ts";

export type Phase = StoreProgress["phase"] | "headers" | LoadingProgress["phase"];

export interface LoadProgress {
  readonly phase: Phase;
  /** Bytes of the download and of weights, tests of the adapter, pipelines. */
  readonly done: number;
  readonly total: number;
  readonly bytesPerSecond?: number;
  /** What goes slower than it could. */
  readonly note?: string;
}

export interface LoadedModel {
  readonly engine: WorkerEngine;
  readonly name: string;
  readonly fit: Fit;
}

export interface LoadModelOptions {
  readonly options: LoadWishes;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: LoadProgress) => void;
  readonly onFit: (fit: Fit) => void;
  /** Called later too: when the GPU is lost and found again, and when prefixes cannot be kept. */
  readonly onRecovery: (event: RecoveryEvent) => void;
  readonly onPrefixProblem: (problem: string) => void;
  /** Of prompts that a prefill server computes for this page. */
  readonly onPages: (pages: ArrivedPages) => void;
}

/** Chats of this page and a few requests to its local endpoint. */
const MAX_RUNNING = 4;

/**
 * @throws {Error} of the step that fails.
 * @throws {DOMException} named AbortError when `signal` is aborted.
 */
export async function loadModel(
  choice: ModelChoice,
  { options, signal, onProgress, onFit, ...listeners }: LoadModelOptions,
): Promise<LoadedModel> {
  const address = await addressOf(choice, { options, signal, onProgress });
  onProgress({ phase: "headers", done: 0, total: 1 });
  const report = await inspect(address);
  signal.throwIfAborted();
  if (report.problem !== undefined) throw new Error(report.problem);
  const contextLength = Math.min(options.contextLength, report.contextLength);
  const { deviceMemory, form: wish } = options;
  const fit = chooseFit(sizesOf(report), { deviceMemory, contextLength, wish });
  onFit(fit);
  onProgress({ phase: "headers", done: 1, total: 1 });
  const engine = await loadWorkerEngine(address, {
    signal,
    onProgress,
    ...listeners,
    contextLength,
    deviceMemory,
    maxRunningRequests: MAX_RUNNING,
    transfersPages: true,
    ...(options.keepsPrefixes && (await hasStorage()) && { prefixStore: {} }),
    ...speculationOf(options.drafts, report),
    ...(fit.form !== "published" && { quantization: fit.form }),
  });
  return { engine, name: nameOf(choice), fit };
}

function speculationOf(
  drafts: LoadWishes["drafts"],
  { draftLayers }: Pick<CheckpointReport, "draftLayers">,
): { readonly speculation?: SpeculationOptions } {
  if (drafts === "none") return {};
  const hasLayer = drafts === "layer" && draftLayers > 0;
  // Whether they pay or not: the panel shows what they bring.
  return { speculation: { algorithm: hasLayer ? "EAGLE" : "NGRAM", adaptive: "off" } };
}

/** What the headers say; a stored model that stays open could not be deleted. */
async function inspect(address: ModelAddress): Promise<CheckpointReport> {
  const source = await openModel(address);
  try {
    return await inspectCheckpoint(source);
  } finally {
    await source.close?.();
  }
}

/** Private windows of some browsers have none; models of addresses and files work there too. */
async function hasStorage(): Promise<boolean> {
  return openModelStore().then(
    () => true,
    () => false,
  );
}

/** Where the worker finds the model; what is missing of a stored one is fetched first. */
async function addressOf(
  choice: ModelChoice,
  { options, ...download }: Pick<LoadModelOptions, "options" | "signal" | "onProgress">,
): Promise<ModelAddress> {
  if (choice.kind === "url" || choice.kind === "files") return choice;
  const store = await openModelStore();
  if (choice.kind === "store") {
    const { name, origin } = choice;
    if (origin !== undefined) await store.add(origin, { ...download, name });
    return { kind: "store", name };
  }
  // Browsers grant more room, for longer, to those that ask.
  await store.persist();
  const name = await store.add({ kind: "hub", id: choice.id, endpoint: options.hub }, download);
  return { kind: "store", name };
}

/**
 * How much of the device's memory goes to weights and to the workspace of prompts, and how many
 * tokens the rest can cache.
 *
 * @module
 */
import {
  bytesPerToken,
  entryBytes,
  type KvCacheShape,
  PADDING_SLOTS,
} from "../../cache/kv_cache.ts";
import { DeviceError } from "../../errors.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Model } from "../../models/model.ts";
import { maxPrefillKeys, type PrefillWorkspace, prefillCapacity } from "./prefill_workspace.ts";

/** Tokens of the shortest sequence: one of a prompt and one of a completion. */
export const MIN_CONTEXT = 2;

/** Where the memory goes; users of the library know it as `MemoryPlan`. */
export interface MemoryBudget {
  readonly deviceMemory: number;
  /** Bytes for weights, workspace and cache together. */
  readonly budget: number;
  /** Of the model, and of one that drafts for it. */
  readonly weightBytes: number;
  /** What a model that drafts takes of the weights and of the cache; absent without one. */
  readonly draft?: { readonly weightBytes: number; readonly cacheBytes: number };
  /** What a vision tower takes of the weights, and for its largest picture; absent without one. */
  readonly vision?: VisionBytes;
  /** Cached entries that prompt attention expands at once, and the bytes that takes; 0 for none. */
  readonly prefillCapacity: number;
  readonly workspaceBytes: number;
  readonly cacheBytes: number;
  /** Slots of the cache, a multiple of the page size. */
  readonly cacheTokens: number;
  readonly bytesPerToken: number;
}

export interface VisionBytes {
  readonly weightBytes: number;
  readonly activationBytes: number;
}

/**
 * What a model takes that is laid out in a ledger.
 *
 * @returns Undefined where it sees no pictures.
 */
export function visionBytes(
  { vision, visionWeightBytes = 0 }: Pick<Model, "vision" | "visionWeightBytes">,
  ledger: DeviceMemory,
): VisionBytes | undefined {
  if (vision === undefined) return undefined;
  const [weights, activations] = [ledger.bytes("weights"), ledger.bytes("activations")];
  vision.allocate();
  return {
    weightBytes: visionWeightBytes + ledger.bytes("weights") - weights,
    activationBytes: ledger.bytes("activations") - activations,
  };
}

export interface MemoryBudgetOptions {
  readonly deviceMemory: number;
  readonly memFractionStatic: number;
  readonly weightBytes: number;
  readonly workspace: PrefillWorkspace;
  /** Rows of one step, and tokens of one sequence. */
  readonly maxRows: number;
  readonly contextLength: number;
  readonly cache: KvCacheShape;
  /** The model that drafts beside the other. */
  readonly draft?: { readonly weightBytes: number; readonly cacheShape: KvCacheShape } | undefined;
  readonly vision?: VisionBytes | undefined;
  readonly pageSize: number;
  /** Slots wanted at most. */
  readonly wantedTokens: number;
  /** Whether fewer slots than wanted are an error. */
  readonly wantedIsGiven: boolean;
  /** Bytes of one binding: a layer's cache is one. */
  readonly maxTensorBytes: number;
}

/** @throws {DeviceError} with figures, when the weights do not fit or leave no room for a page. */
export function budgetMemory(options: MemoryBudgetOptions): MemoryBudget {
  const { deviceMemory, memFractionStatic, draft, vision, pageSize } = options;
  const weightBytes = options.weightBytes + (draft?.weightBytes ?? 0);
  const { wantedTokens, wantedIsGiven, maxTensorBytes } = options;
  const budget = Math.floor(deviceMemory * memFractionStatic);
  const share = `${memFractionStatic} of ${megabytes(deviceMemory)}`;
  const pictureBytes = vision?.activationBytes ?? 0;
  const fixedBytes = weightBytes + pictureBytes;
  const pictures = pictureBytes > 0 ? ` and pictures ${megabytes(pictureBytes)}` : "";
  if (fixedBytes > budget) {
    throw new DeviceError(
      `Cannot load the model: its weights take ${megabytes(weightBytes)}${pictures}, but only ` +
        `${megabytes(budget)} (${share}) may be used; raise --device-memory or --mem-fraction-static`,
    );
  }
  const perToken = tokenBytes(options);
  const bound = Math.floor(maxTensorBytes / widestEntry(options));
  const pagesWanted = Math.ceil(wantedTokens / pageSize);
  const { capacity, workspaceBytes } = budgetWorkspace(options, {
    leftBytes: budget - fixedBytes,
    cacheSlots: pagesWanted * pageSize + PADDING_SLOTS,
  });
  const room = Math.max(budget - fixedBytes - workspaceBytes, 0);
  const fits = Math.max(Math.min(Math.floor(room / perToken), bound) - PADDING_SLOTS, 0);
  const pages = Math.min(pagesWanted, Math.floor(fits / pageSize));
  if (pages * pageSize < MIN_CONTEXT || (wantedIsGiven && pages < pagesWanted)) {
    const and = workspaceBytes > 0 ? ` and ${megabytes(workspaceBytes)} to expand prompts in` : "";
    const reason =
      fits === bound - PADDING_SLOTS
        ? `the ${megabytes(maxTensorBytes)} that this adapter binds at once hold a layer's keys and values for ${fits}`
        : `beside weights of ${megabytes(weightBytes)}${pictures}${and} there is room for ${fits} (${share})`;
    throw new DeviceError(
      `Cannot cache ${pagesWanted * pageSize} tokens of ${perToken} bytes: ${reason}`,
    );
  }
  const cacheTokens = pages * pageSize;
  const slots = cacheTokens + PADDING_SLOTS;
  return {
    deviceMemory,
    budget,
    weightBytes,
    prefillCapacity: capacity,
    workspaceBytes,
    cacheBytes: slots * perToken,
    cacheTokens,
    bytesPerToken: perToken,
    ...(vision && { vision }),
    ...(draft && {
      draft: {
        weightBytes: draft.weightBytes,
        cacheBytes: slots * bytesPerToken(draft.cacheShape),
      },
    }),
  };
}

type Caches = Pick<MemoryBudgetOptions, "cache" | "draft">;

/** Bytes of a token in the caches of both models. */
const tokenBytes = ({ cache, draft }: Caches): number =>
  bytesPerToken(cache) + (draft === undefined ? 0 : bytesPerToken(draft.cacheShape));

/** Bytes of a token in the layer that has most of them. */
const widestEntry = ({ cache, draft }: Caches): number =>
  Math.max(entryBytes(cache), draft === undefined ? 0 : entryBytes(draft.cacheShape));

/** The workspace for contexts as long as the cache may come to hold. */
function budgetWorkspace(
  options: MemoryBudgetOptions,
  { leftBytes, cacheSlots }: { readonly leftBytes: number; readonly cacheSlots: number },
) {
  const { workspace, contextLength, maxRows, maxTensorBytes } = options;
  const perToken = tokenBytes(options);
  const longest = Math.min(contextLength, cacheSlots, Math.ceil(leftBytes / perToken));
  const capacity = prefillCapacity(workspace, {
    maxKeys: maxPrefillKeys(longest, maxRows),
    maxRows,
    leftBytes,
    cacheBytes: options.wantedIsGiven ? cacheSlots * perToken : 0,
    maxTensorBytes,
  });
  return { capacity, workspaceBytes: capacity * (workspace.expandedEntry?.bytes ?? 0) };
}

/** Two figures are enough for a person. */
export function megabytes(bytes: number): string {
  if (bytes >= 2 ** 30) return `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

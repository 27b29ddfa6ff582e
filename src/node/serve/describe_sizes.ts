/**
 * What a start says of its sizes: where the memory goes, and what a step takes.
 *
 * @module
 */
import { megabytes } from "../../engine/load/memory_budget.ts";
import type { RequestLimit, StartSizes, StepLimit } from "../../engine/load/start_sizes.ts";
import type { Unshared } from "../../layers/ranks/unshared.ts";

/** @param chunkedPrefillSize Of the command line, or a group's part of that; -1 asks for nothing. */
export function describeSizes(sizes: StartSizes, chunkedPrefillSize: number): readonly string[] {
  const { weightBytes, cacheBytes, cacheTokens, budget, deviceMemory } = sizes;
  const { prefillCapacity, workspaceBytes, vision, cacheCopies } = sizes;
  const pictures =
    vision === undefined ? "" : `, ${megabytes(vision.activationBytes)} for pictures`;
  const workspace =
    prefillCapacity === 0
      ? ""
      : `, ${megabytes(workspaceBytes)} to expand ${prefillCapacity} tokens of prompts at once`;
  return [
    `Memory: ${megabytes(weightBytes)} of weights, ${megabytes(cacheBytes)} of KV cache for ` +
      `${cacheTokens} tokens${workspace}${pictures}, of ${megabytes(budget)} (device: ${megabytes(deviceMemory)})`,
    ...(cacheCopies > 1
      ? [`KV cache: ${cacheCopies} ranks hold the same entries, each all of them`]
      : []),
    describeStep(sizes.step, chunkedPrefillSize),
  ];
}

/**
 * A line where fewer requests run at once than are asked for.
 *
 * @param groups That share out what is asked for, of which this is one.
 */
export function describeRequests(
  { running, bound }: RequestLimit,
  asked: number | undefined,
  groups = 1,
): readonly string[] {
  if (asked === undefined) return [];
  const share = Math.floor(asked / groups);
  const option = "(--max-running-requests)";
  if (share > running) {
    return [`Requests: ${running} at once and not ${share} ${option}, ${BOUNDS[bound]}`];
  }
  if (groups === 1) return [];
  return [`Requests: ${running} at once, of ${asked} that ${groups} groups share out ${option}`];
}

/** A line where drafts are made, one for a model that makes them, and what the plan says of options. */
export function describeSpeculation({
  speculation,
  draft,
}: Pick<StartSizes, "speculation" | "draft">): readonly string[] {
  if (speculation === undefined) return [];
  const { algorithm, shape, source, sentences } = speculation;
  const most = shape.draftTokens - 1;
  const drafts = most === 1 ? "1 draft" : `${most} drafts`;
  return [
    `Speculation: ${algorithm}, up to ${drafts} of a request in a step`,
    ...(source.kind === "model" && draft !== undefined
      ? [
          `Draft model: ${source.path}, ${megabytes(draft.weightBytes)} of the weights and ` +
            `${megabytes(draft.cacheBytes)} of the KV cache`,
        ]
      : []),
    ...sentences,
  ];
}

/** Reasons that a start tells at most. */
const MOST_REASONS = 8;

/** What ranks share, and what each of them has whole, by why; nothing for one rank. */
export function describeRanks(
  size: number,
  unshared: readonly Unshared[],
  where = "on this adapter",
): readonly string[] {
  if (size === 1) return [];
  return [
    `Ranks: ${size} share the model ${where}`,
    ...describeUnshared(unshared).map((reason) => `Ranks: each has whole ${reason}`),
  ];
}

/** What each rank has whole, by why. */
export function describeUnshared(unshared: readonly Unshared[]): readonly string[] {
  const byReason = new Map<string, Set<string>>();
  for (const { name, why } of unshared) {
    const names = byReason.get(why) ?? new Set();
    byReason.set(why, names.add(name.replace(/\.layers\.\d+\./, ".layers.*.")));
  }
  const reasons = Array.from(byReason, ([why, names]) => `${[...names].join(", ")}, as ${why}`);
  const left = reasons.length - MOST_REASONS;
  const more = left > 0 ? [`other parts, for ${left} more reasons`] : [];
  return [...reasons.slice(0, MOST_REASONS), ...more];
}

const BOUNDS: Readonly<Record<StepLimit["bound"], string>> = {
  asked: "as --chunked-prefill-size says",
  rows: "because one submit computes no more rows, so that it ends in good time",
  binding: "because activations of more rows do not fit what this adapter binds at once",
};

function describeStep({ promptTokens, bound }: StepLimit, asked: number): string {
  const instead =
    asked === -1 || bound === "asked" ? "" : ` and not ${asked} (--chunked-prefill-size)`;
  return `Steps: up to ${promptTokens} prompt tokens${instead}, ${BOUNDS[bound]}`;
}

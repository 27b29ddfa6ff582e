/**
 * `n`: several answers to one prompt.
 *
 * Each sample is a generation of its own. They come one after another, so the first computes the
 * prompt and the others find it in the cache.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { type GenerationRequest, newRequestId } from "../../generation.ts";
import type { Fields } from "../../http/fields.ts";

/** Answers to one prompt at most, as many as OpenAI's endpoint gives. */
export const MAX_SAMPLES = 128;
/** Takes a seed to that of the next sample; odd, so that none comes twice. The golden ratio times 2^32. */
const SEED_STEP = 0x9e3779b9;

/** The field `n`; 1 when it is absent. */
export function readSampleCount(fields: Fields): number {
  return fields.integer("n", { min: 1, max: MAX_SAMPLES }) ?? 1;
}

/**
 * The requests for `count` answers to each prompt: all of the first prompt, then all of the second.
 *
 * The first sample of a prompt keeps its seed, so that it is the answer that it would be alone. Ids
 * name one answer, so where there are several they are left to the engine.
 */
export function withSamples(
  requests: readonly GenerationRequest[],
  count: number,
): readonly GenerationRequest[] {
  if (count === 1) return requests;
  return requests.flatMap(({ requestId: _, ...request }) => {
    const isRead = request.tokens === undefined;
    const shared = { ...request, ...(isRead && { promptKey: newRequestId() }) };
    return Array.from({ length: count }, (_, sample) => withSeedOf(sample, shared));
  });
}

/**
 * Which requests an id stands for, where it stands for several: that of a prompt with several
 * samples, and `shared`, which stands for all prompts.
 *
 * @param ids One for each prompt.
 */
export function requestGroups(
  ids: readonly (string | undefined)[],
  { samples, shared }: { readonly samples: number; readonly shared?: string | undefined },
): ReadonlyMap<string, readonly number[]> {
  const groups = new Map<string, readonly number[]>();
  const positions = (first: number, count: number) =>
    Array.from({ length: count }, (_, i) => first + i);
  if (samples > 1) {
    ids.forEach((id, prompt) => {
      if (id !== undefined) groups.set(id, positions(prompt * samples, samples));
    });
  }
  if (shared !== undefined) groups.set(shared, positions(0, ids.length * samples));
  return groups;
}

function withSeedOf(sample: number, request: GenerationRequest): GenerationRequest {
  const { sampling } = request;
  if (sampling?.seed === undefined) return request;
  const seed = (sampling.seed + Math.imul(sample, SEED_STEP)) >>> 0;
  return { ...request, sampling: { ...sampling, seed } };
}

/** @throws {InvalidRequestError} when a field tells prompts apart, which `n` > 1 does not allow. */
export function refuseLists(fields: Fields, count: number): void {
  if (count === 1) return;
  const scalars = ["return_logprob", "logprob_start_len", "top_logprobs_num"];
  const name = scalars.find((field) => Array.isArray(fields.value(field)));
  const ids = fields.value("token_ids_logprob");
  const isNested = Array.isArray(ids) && ids.some((one) => one === null || Array.isArray(one));
  const refused = name ?? (isNested ? "token_ids_logprob" : undefined);
  if (refused === undefined) return;
  throw new InvalidRequestError(
    `Cannot use list ${refused} with parallel_sample_num > 1: one value serves all prompts when n is above 1`,
    refused,
  );
}

/**
 * Body of `/generate` -> one `GenerationRequest` for each sample of each prompt.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationRequest, ModelDescription } from "../../generation.ts";
import type { BodyShare } from "../../http/body_memory.ts";
import { Fields, present, wrongType } from "../../http/fields.ts";
import { requirePlaces } from "../queue_room.ts";
import type { ServerContext } from "../server_context.ts";
import { readCacheSalts, readStorePrefix } from "./cache_fields.ts";
import { requireName } from "./field_limits.ts";
import { IDLE_GENERATE_FIELDS } from "./idle_fields.ts";
import { readImageData } from "./image_fields.ts";
import { readLogprobs } from "./logprob_fields.ts";
import { readPrompts } from "./prompt_fields.ts";
import { readDataParallelRank } from "./replica_field.ts";
import { refuseLists, requestGroups, withSamples } from "./samples.ts";
import { readSamplingParams, type SampledPrompt } from "./sampling_fields.ts";

export interface GenerateBody {
  /** All samples of the first prompt, then all of the second. */
  readonly requests: readonly GenerationRequest[];
  /** Ids that stand for several of them. */
  readonly groups: ReadonlyMap<string, readonly number[]>;
  /** A batch answers with an array, also when it has one item; several samples are a batch. */
  readonly batch: boolean;
  readonly stream: boolean;
}

/**
 * @param share Of the body, where its images are counted too.
 * @throws {CapacityError | HttpError | InvalidRequestError | UnsupportedError} as a rejection, naming
 * the field to blame.
 */
export async function readGenerateBody(
  body: unknown,
  { engine, onIdle, media }: Pick<ServerContext, "engine" | "onIdle" | "media">,
  share: BodyShare,
): Promise<GenerateBody> {
  const { model } = engine;
  const fields = new Fields(body, { onIdle });
  fields.takeIdle(IDLE_GENERATE_FIELDS);
  const { prompts, batch } = await readPrompts(fields, engine);
  const { sampling, samples } = readSampling(fields, { count: prompts.length, batch, model });
  refuseLists(fields, samples);
  requirePlaces(engine, prompts.length * samples, "sampling_params.n");
  const hasTokens = prompts.every(({ inputEmbeds }) => inputEmbeds === undefined);
  const images = await readImageData(fields, { count: prompts.length, batch, model, share, media });
  const logprobs = readLogprobs(fields, { count: prompts.length, batch, model });
  const ids = readRequestIds(fields, prompts.length, batch);
  const salts = readCacheSalts(fields, { count: prompts.length, batch });
  const storePrefix = readStorePrefix(fields, { model, hasTokens });
  const isMeasured = fields.boolean("log_metrics");
  const priority = fields.integer("priority");
  const dataParallelRank = readDataParallelRank(fields, model);
  const stream = fields.boolean("stream") ?? false;
  fields.end();
  const requests = prompts.map((prompt, i) =>
    present<GenerationRequest>({
      ...prompt,
      images: images[i],
      sampling: sampling[i]?.sampling,
      streamInterval: sampling[i]?.streamInterval,
      logprobs: logprobs[i],
      requestId: ids[i],
      cacheSalt: salts[i],
      storePrefix,
      isMeasured,
      priority,
      dataParallelRank,
    }),
  );
  const rid = fields.value("rid");
  const shared = batch && typeof rid === "string" ? rid : undefined;
  const groups = requestGroups(ids, { samples, shared });
  return { requests: withSamples(requests, samples), groups, batch: batch || samples > 1, stream };
}

interface BatchSampling {
  readonly sampling: readonly (SampledPrompt | undefined)[];
  /** Answers to each prompt. */
  readonly samples: number;
}

/** One object for all prompts, or a list with one for each. */
function readSampling(
  fields: Fields,
  {
    count,
    batch,
    model,
  }: { readonly count: number; readonly batch: boolean; readonly model: ModelDescription },
): BatchSampling {
  const value = fields.value("sampling_params");
  if (value === undefined) return { sampling: [], samples: 1 };
  if (!batch || !Array.isArray(value)) {
    const shared = readSamplingParams(fields.within(value, "sampling_params"), model);
    return { sampling: new Array<SampledPrompt>(count).fill(shared), samples: shared.samples };
  }
  requireCount(value, count, "sampling_params");
  const read = value.map((item, i) =>
    item === null
      ? undefined
      : readSamplingParams(fields.within(item, `sampling_params[${i}]`), model),
  );
  const samples = read[0]?.samples ?? 1;
  const other = read.findIndex((one) => (one?.samples ?? 1) !== samples);
  if (other > 0) {
    const path = `sampling_params[${other}].n`;
    const given = read[other]?.samples ?? 1;
    throw new InvalidRequestError(
      `${path} must be the same for all prompts, got ${given} after ${samples}`,
      path,
    );
  }
  return { sampling: read, samples };
}

/** `{rid}_{i}` for the items of a batch that shares one, so that each can be named. */
function readRequestIds(
  fields: Fields,
  count: number,
  batch: boolean,
): readonly (string | undefined)[] {
  const value = fields.value("rid");
  if (value === undefined) return [];
  if (!Array.isArray(value)) {
    const rid = readRequestId(value, "rid");
    return batch ? Array.from({ length: count }, (_, i) => `${rid}_${i}`) : [rid];
  }
  if (!batch) throw wrongType("rid", "a string when there is one prompt", value);
  requireCount(value, count, "rid");
  const ids = value.map((item, i) => readRequestId(item, `rid[${i}]`));
  if (new Set(ids).size < count) {
    throw new InvalidRequestError("Cannot use rid: it names two prompts alike", "rid");
  }
  return ids;
}

function readRequestId(value: unknown, path: string): string {
  const id = requireName(value, path);
  if (id === "") throw new InvalidRequestError(`${path} cannot be empty`, path);
  return id;
}

function requireCount(list: readonly unknown[], count: number, path: string): void {
  if (list.length === count) return;
  throw new InvalidRequestError(
    `${path} must have one item for each of the ${count} prompts, got ${list.length}`,
    path,
  );
}

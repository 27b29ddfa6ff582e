/**
 * Body of `/v1/completions` -> one `GenerationRequest` for each sample of each prompt.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { GenerationRequest, ModelDescription } from "../../generation.ts";
import { Fields, present } from "../../http/fields.ts";
import type { LogprobOptions } from "../../logprobs.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import type { IdentifiedRequests } from "../live_requests.ts";
import { requirePlaces } from "../queue_room.ts";
import type { ServerContext } from "../server_context.ts";
import { readStreamOptions, type StreamOptions } from "../wire/usage.ts";
import { readCacheSalt, readStorePrefix } from "./cache_fields.ts";
import { readName } from "./field_limits.ts";
import { IDLE_COMPLETION_FIELDS } from "./idle_fields.ts";
import { type Prompt, readPromptField } from "./prompt_fields.ts";
import { readDataParallelRank } from "./replica_field.ts";
import { readSampleCount, requestGroups, withSamples } from "./samples.ts";
import {
  readMaxTokens,
  readMinNewTokens,
  readOpenaiSampling,
  readSeed,
} from "./sampling_fields.ts";

/** Completion tokens of a request that does not say. */
const DEFAULT_MAX_TOKENS = 16;
/** Largest `logprobs`. */
export const MAX_TOP = 20;

export interface CompletionBody extends IdentifiedRequests, StreamOptions {
  readonly prompts: readonly Prompt[];
  /** Answers to each prompt. */
  readonly samples: number;
  /** Whether answers begin with their prompt. */
  readonly echo: boolean;
  /** The client's id, which its answer repeats. */
  readonly rid: string | undefined;
  /** As the client wrote it, else the name of the model that is served. */
  readonly model: string;
  readonly stream: boolean;
}

/** @throws {HttpError | InvalidRequestError | UnsupportedError} naming the field to blame. */
export function readCompletionBody(body: unknown, context: ServerContext): CompletionBody {
  const { engine, onIdle, servedModelName } = context;
  const { model } = engine;
  const fields = new Fields(body, { onIdle });
  fields.takeIdle(IDLE_COMPLETION_FIELDS);
  const { prompts, batch } = readPromptField(fields, engine);
  const samples = readSampleCount(fields);
  refuseBestOf(fields, samples);
  requirePlaces(engine, prompts.length * samples, "n");
  const echo = fields.boolean("echo") ?? false;
  const shared = {
    sampling: readSampling(fields, model),
    logprobs: readCompletionLogprobs(fields, echo),
    cacheSalt: readCacheSalt(fields),
    storePrefix: readStorePrefix(fields, { model }),
    isMeasured: fields.boolean("log_metrics"),
    priority: fields.integer("priority"),
    dataParallelRank: readDataParallelRank(fields, model),
  };
  const rid = readName(fields, "rid");
  if (rid === "") throw new InvalidRequestError("rid cannot be empty", "rid");
  const ids = prompts.map((_, i) => (batch && rid !== undefined ? `${rid}_${i}` : rid));
  const modelName = readName(fields, "model") || servedModelName;
  const stream = fields.boolean("stream") ?? false;
  const streamOptions = readStreamOptions(fields, stream);
  fields.end();
  const requests = prompts.map((prompt, i) =>
    present<GenerationRequest>({ ...prompt, ...shared, requestId: ids[i] }),
  );
  return {
    requests: withSamples(requests, samples),
    groups: requestGroups(ids, { samples, shared: batch ? rid : undefined }),
    prompts,
    samples,
    echo,
    rid,
    model: modelName,
    stream,
    ...streamOptions,
  };
}

function readSampling(fields: Fields, model: ModelDescription): SamplingParams {
  const { maxNewTokens: fallback = DEFAULT_MAX_TOKENS } = model.defaults;
  const asked = readMaxTokens(fields, "max_tokens");
  const maxNewTokens = asked === undefined ? fallback : asked;
  return present<SamplingParams>({
    ...readOpenaiSampling(fields, model),
    maxNewTokens,
    minNewTokens: readMinNewTokens(fields, "min_tokens", maxNewTokens),
    seed: readSeed(fields, "seed"),
  });
}

/** How many of the likeliest tokens to tell about; an echoed prompt's tokens are told about too. */
function readCompletionLogprobs(fields: Fields, echo: boolean): LogprobOptions | undefined {
  const topCount = fields.integer("logprobs", { min: 0, max: MAX_TOP });
  if (topCount === undefined) return undefined;
  return { topCount, text: true, ...(echo && { promptStart: 0 }) };
}

/** To pick the best of more answers than are sent is another thing than to send several. */
function refuseBestOf(fields: Fields, samples: number): void {
  const bestOf = fields.integer("best_of", { min: 1 });
  if (bestOf === undefined || bestOf === 1 || bestOf === samples) return;
  const field = "best_of";
  throw new UnsupportedError(field, `it can only be 1 or n, got ${bestOf}`, { field });
}

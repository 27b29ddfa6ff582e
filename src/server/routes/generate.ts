/**
 * `POST /generate`: raw prompts in, completions out, one or a batch of them.
 *
 * @module
 */

import type { FinishReason, GenerationChunk } from "../../generation.ts";
import { generateErrorBody } from "../../http/error_response.ts";
import { eventStream, JsonText } from "../../http/event_stream.ts";
import type { LogprobOptions } from "../../logprobs.ts";
import { acceptLength, type SpeculationFigures } from "../../speculation_figures.ts";
import { readGenerateBody } from "../fields/generate_request.ts";
import { GenerationGroup } from "../generation_group.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";
import { GrowingJsonNumbers, GrowingJsonText } from "../wire/growing_json.ts";
import { wireWarnings } from "../wire/metadata.ts";
import { WireLogprobs } from "../wire/wire_logprobs.ts";
import { asClientWrote } from "../wire/wire_names.ts";

/** @throws before the response starts, so that errors of the request have a status of their own. */
export async function handleGenerate(context: ServerContext, request: Request): Promise<Response> {
  const startTime = performance.now();
  const json = await readBody(context, request);
  const body = await readGenerateBody(json, context, context.bodies.of(request));
  const group = await GenerationGroup.answer(context, body, request).catch((error: unknown) => {
    throw asClientWrote(error, { endpoint: "generate", body: json });
  });
  const completions = body.requests.map(({ logprobs }) => new Completion(startTime, logprobs));

  if (body.stream) {
    const releaseBody = context.bodies.of(request).keep();
    return eventStream(group, {
      events: ({ index, chunk }) => {
        const completion = completions[index]!;
        if (!completion.append(chunk)) return [];
        return [completion.toEvent(body.batch ? { index } : {})];
      },
      last: () => {
        for (const completion of completions) completion.requireFinished();
        return [];
      },
      failure: (error) => {
        context.reportError(error, request);
        return generateErrorBody(error);
      },
      ended: () => {
        releaseBody();
        group.release();
      },
    });
  }

  await group.collect(({ index, chunk }) => completions[index]!.append(chunk));
  return group.releasing(() => {
    for (const completion of completions) completion.requireFinished();
    const answers = completions.map((completion) => completion.toWire());
    return body.batch ? answers : answers[0]!;
  });
}

/**
 * Log-probabilities that an event may repeat for each new token. Every event carries all of an answer,
 * so where there are more of them it waits for more tokens.
 */
export const REPEATED_RESULTS = 2 ** 16;

/** One completion as far as it has come. On this endpoint every event carries all of it. */
class Completion {
  readonly #startTime: number;
  readonly #outputIds: number[] = [];
  readonly #logprobs: WireLogprobs | undefined;
  readonly #textJson = new GrowingJsonText();
  readonly #idsJson = new GrowingJsonNumbers();
  #text = "";
  /** What was ignored of the request. */
  #warnings: readonly string[] = [];
  #last: GenerationChunk | null = null;
  /** Tokens that no event has told of. */
  #untold = 0;

  constructor(startTime: number, logprobs: LogprobOptions | undefined) {
    this.#startTime = startTime;
    this.#logprobs = logprobs && new WireLogprobs(logprobs);
  }

  /** @returns Whether an event is due. */
  append(chunk: GenerationChunk): boolean {
    this.#last = chunk;
    if (chunk.compilation?.warnings !== undefined) this.#warnings = chunk.compilation.warnings;
    this.#text += chunk.text;
    for (const token of chunk.tokens) this.#outputIds.push(token);
    this.#logprobs?.append(chunk);
    this.#untold += chunk.tokens.length;
    if (chunk.finish !== null) return true;
    const isNews = chunk.tokens.length > 0 || chunk.text !== "";
    return isNews && (this.#logprobs?.weight ?? 0) <= REPEATED_RESULTS * this.#untold;
  }

  requireFinished(): void {
    if (this.#last?.finish) return;
    throw new Error("Cannot answer: the engine ended a generation without a reason");
  }

  /** The documented object. It shares its lists: write it down before the next `append`. */
  toWire(): object {
    return { text: this.#text, output_ids: this.#outputIds, meta_info: this.#metaInfo() };
  }

  /** The same with further fields, as JSON. */
  toEvent(further: object): JsonText {
    const text = this.#textJson.write(this.#text);
    const ids = this.#idsJson.write(this.#outputIds);
    const others = { meta_info: this.#metaInfo(), ...further };
    this.#untold = 0;
    return new JsonText(`{"text":${text},"output_ids":${ids},`, others);
  }

  #metaInfo(): object {
    const { requestId, promptTokens, completionTokens, cachedTokens, finish } = this.#last!;
    const { speculation, forcedTokens, imageTokens, dataParallelRank } = this.#last!;
    const metaInfo = {
      id: requestId,
      finish_reason: finish === null ? null : wireFinishReason(finish),
      prompt_tokens: promptTokens,
      weight_version: "default",
      ...this.#logprobs?.toWire(),
      completion_tokens: completionTokens,
      cached_tokens: cachedTokens,
      ...(imageTokens !== undefined && { image_tokens: imageTokens }),
      ...(dataParallelRank !== undefined && { dp_rank: dataParallelRank }),
    };
    if (finish === null) return metaInfo;
    const latency = { e2e_latency: (performance.now() - this.#startTime) / 1000 };
    return {
      ...metaInfo,
      ...(forcedTokens !== undefined && { forced_tokens: forcedTokens }),
      ...(speculation && wireSpeculation(speculation)),
      ...wireWarnings(this.#warnings),
      ...latency,
    };
  }
}

function wireSpeculation(figures: SpeculationFigures): object {
  const { verifySteps, proposedDrafts, acceptedDrafts } = figures;
  return {
    spec_verify_ct: verifySteps,
    spec_accept_length: acceptLength(figures),
    spec_accept_rate: acceptedDrafts / Math.max(proposedDrafts, 1),
    spec_num_correct_drafts: acceptedDrafts,
    spec_num_proposed_drafts: proposedDrafts,
  };
}

function wireFinishReason(finish: FinishReason): object {
  switch (finish.type) {
    case "stop":
      return { type: "stop", matched: finish.matched };
    case "length":
      return { type: "length", length: finish.length };
    case "abort":
      return { type: "abort", message: finish.message, status_code: null, err_type: null };
    default:
      return finish satisfies never;
  }
}

/**
 * What engines are asked in tests of ranks over MPI, and everything that has to be the same.
 *
 * @module
 */
import type { EngineOptions } from "../../../src/engine/engine_options.ts";
import type { GenerationEngine, GenerationRequest } from "../../../src/generation.ts";
import { hostMicroseconds } from "./host_time.ts";

/** As structured cloning can hold it. */
export interface EngineTask {
  /** Folder of a checkpoint. */
  readonly model: string;
  readonly options: Partial<EngineOptions>;
  /** So many attention groups of the ranks share the requests out. Default: one. */
  readonly groups?: number | undefined;
  /** Folder of a model that drafts. */
  readonly draftModel?: string | undefined;
  /** Requests that are asked at once, one round behind the other. */
  readonly rounds: readonly (readonly GenerationRequest[])[];
  /** Folder of a store of prefixes. */
  readonly prefixes?: string;
  /** What every exchange of layers takes beside what it takes here, as over a slower network. */
  readonly link?: SlowLink;
  /** Takes a profile of all rounds, which makes them slower. */
  readonly isProfiled?: boolean;
  /** Ranks that lose their devices, each with the order of such a number. */
  readonly losses?: readonly { readonly rank: number; readonly order: number }[] | undefined;
}

export interface SlowLink {
  /** Of an exchange, whatever it brings. */
  readonly milliseconds: number;
  readonly bytesPerMillisecond: number;
}

/** Exchanges of layers and of logits, and what the first rank has waited in them. */
export interface ExchangeFigures {
  count: number;
  milliseconds: number;
}

export interface EngineAnswers {
  /** Of ranks over MPI. */
  readonly exchanges?: ExchangeFigures;
  readonly answers: readonly {
    readonly tokens: readonly number[];
    readonly finish: unknown;
    readonly logprobs: readonly unknown[];
    readonly promptLogprobs: readonly unknown[];
  }[];
  /** What has happened on the way. */
  readonly figures: {
    readonly cachedTokens: number;
    readonly retractions: number;
    readonly recoveries: number;
    readonly restoredTokens: number;
    readonly acceptedDrafts: number;
    /** Slots that have come to hold another expert. */
    readonly movedExperts: number;
    /** Steps that were cut into two micro-batches. */
    readonly overlappedSteps: number;
    /** Milliseconds of all rounds. */
    readonly milliseconds: number;
    /** What the host has done of a step, on the average, exchanges left out; of a profile. */
    readonly hostMicroseconds?: number | undefined;
  };
}

/** All of an answer. */
export async function answerOf(engine: GenerationEngine, request: GenerationRequest) {
  const chunks = [];
  for await (const chunk of engine.generate(request)) chunks.push(chunk);
  return {
    tokens: chunks.flatMap(({ tokens }) => tokens),
    finish: chunks.at(-1)!.finish,
    logprobs: chunks.flatMap(({ logprobs }) => logprobs ?? []),
    promptLogprobs: chunks.flatMap(({ promptLogprobs }) => promptLogprobs ?? []),
  };
}

/** The answers of an engine, which is closed then; numbers as JSON has them. */
export async function answersOf(
  engine: GenerationEngine,
  { rounds, isProfiled = false }: Pick<EngineTask, "rounds" | "isProfiled">,
  movedExperts = () => 0,
): Promise<EngineAnswers> {
  const answers: Awaited<ReturnType<typeof answerOf>>[] = [];
  const ask = async () => {
    for (const round of rounds) {
      answers.push(...(await Promise.all(round.map((one) => answerOf(engine, one)))));
    }
  };
  const begun = performance.now();
  const profile = isProfiled ? await engine.profile!(ask) : await ask();
  const milliseconds = performance.now() - begun;
  const { cachedTokens, retractions, recoveries, prefixStore, speculation, ...status } =
    engine.status();
  const { overlappedSteps = 0 } = status;
  await engine.close();
  const told = {
    answers,
    figures: {
      ...{ cachedTokens, retractions, recoveries, milliseconds },
      restoredTokens: prefixStore?.restoredTokens ?? 0,
      acceptedDrafts: speculation?.acceptedDrafts ?? 0,
      movedExperts: movedExperts(),
      overlappedSteps,
      hostMicroseconds: profile && hostMicroseconds(profile),
    },
  };
  return JSON.parse(JSON.stringify(told));
}

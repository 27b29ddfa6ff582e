/**
 * Requests and runs of the exactness matrix: what is compared with what.
 *
 * @module
 */
import { vi } from "vitest";
import { PageCodec } from "../../../src/cache/page_codec.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { EngineOptions } from "../../../src/engine/engine_options.ts";
import { loadGroupEngines } from "../../../src/engine/groups/attention_groups.ts";
import type { FinishReason, GenerationRequest } from "../../../src/generation.ts";
import { Plan } from "../../../src/gpu/plan.ts";
import type { Step } from "../../../src/layers/batch.ts";
import type { PromptLogprobs, TokenLogprobs } from "../../../src/logprobs.ts";
import { ReplicatedEngine } from "../../../src/parallel/replicas/replicated_engine.ts";
import { NgramProposer } from "../../../src/speculation/ngram_proposer.ts";
import type { StepCosts } from "../../../src/speculation/step_costs.ts";
import { StepWatch } from "../engines/watch_steps.ts";
import { type Apart, apart } from "./apart.ts";
import { type ExactModel, LONGEST, type Probe, SHORT, TOKENS } from "./models.ts";

/** Everything that is promised to be the same. */
export interface Answer {
  readonly text: string;
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprobs[];
  readonly promptLogprobs: readonly PromptLogprobs[] | undefined;
  readonly finish: FinishReason | null;
}

const ids = (seed: number, length: number, { vocabularySize }: ExactModel) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * i * 31) % (vocabularySize - 3)));

/** Requests of every kind, whose answers are compared. */
function tokenProbes(model: ExactModel): (Probe & { readonly tokens: readonly number[] })[] {
  const plain = { ignoreEos: true, maxNewTokens: TOKENS };
  return [
    {
      requestId: "greedy",
      tokens: ids(1, SHORT, model),
      sampling: { ...plain, temperature: 0 },
      logprobs: { topCount: 3 },
    },
    {
      requestId: "seeded",
      tokens: ids(2, LONGEST, model),
      sampling: { ...plain, temperature: 1, topP: 0.95, topK: 50, seed: 5 },
      logprobs: { topCount: 1, text: true },
    },
    {
      requestId: "adjusted",
      tokens: ids(3, 21, model),
      sampling: {
        ...plain,
        temperature: 0.9,
        minP: 0.02,
        seed: 6,
        repetitionPenalty: 1.2,
        frequencyPenalty: 0.4,
        presencePenalty: -0.3,
        minNewTokens: 3,
        logitBias: { 9: 2 },
      },
      logprobs: { promptStart: 5, topCount: 2, tokenIds: [7, 9] },
    },
    {
      requestId: "bare",
      tokens: ids(4, 5, model),
      sampling: { ...plain, temperature: 0 },
    },
  ];
}

/** Others that are computed at the same time: they come in all kinds, and leave one by one. */
function neighbours(count: number, model: ExactModel): GenerationRequest[] {
  return Array.from({ length: count }, (_, i) => ({
    tokens: ids(50 + i, 1 + ((7 * i) % 20), model),
    sampling: {
      ignoreEos: true,
      maxNewTokens: (model.probes === undefined ? 3 : 2 * TOKENS) + (i % TOKENS),
      temperature: i % 3,
      seed: i,
      ...(i % 4 === 0 && { frequencyPenalty: 1 }),
      ...(i % 5 === 0 && { logitBias: { [i]: 3 } }),
      ...(i % 6 === 0 && { topK: 7 }),
    },
    ...(i % 7 === 0 && { logprobs: { promptStart: 0, topCount: 3 } }),
  }));
}

export interface Run {
  readonly options?: Partial<EngineOptions>;
  /** Requests at once, the probes among them. Default: no others. */
  readonly requests?: number;
  /** Everything is asked twice, so that the second time the prompts are cached. */
  readonly twice?: boolean;
  /** One probe after another. Default: all at once. */
  readonly alone?: boolean;
  /** A request that is answered before all others, by its id. */
  readonly first?: "greedy" | "second turn";
  /**
   * Steps verify drafts: of the probes two in three that the first run had, of others wrong ones; or
   * those that the checkpoint's module makes, one behind the other or in trees, another model or a head.
   */
  readonly drafts?:
    | true
    | "module"
    | "trees"
    | "large trees"
    | "model"
    | "model trees"
    | HeadDrafts;
  /** Prompts are computed by an engine of their own, which has these options beside the others. */
  readonly apart?: Partial<EngineOptions>;
  /** Has the number of drafts follow these costs of steps, up to three. */
  readonly costs?: StepCosts;
  /** So many engines share the requests out. Default: one has them all. */
  readonly replicas?: number;
  /** So many attention groups of the ranks share them out. Default: one. */
  readonly groups?: number;
}

/** What a run did, and what came out of it. */
export interface Outcome {
  /** By request id, one for each time it was asked. */
  readonly answers: Readonly<Record<string, readonly Answer[]>>;
  /** Of the last time. */
  readonly cachedTokens: Readonly<Record<string, number>>;
  readonly watch: StepWatch;
  readonly retractions: number;
  /** Rows, with padding, of each step whose launches were kept. */
  readonly keptRows: readonly number[];
  /** That ran the steps. */
  readonly ranks: number;
  /** Of each step whether its rows entered the cache of a draft module. */
  readonly entering: readonly boolean[];
  /** Of each step that was cut into two micro-batches, the rows of these. */
  readonly cut: readonly (readonly number[])[];
  /** Of engines that share requests, once all are answered: what is left of rooms and pages. */
  readonly left: readonly number[];
  /** Replicas that have answered. */
  readonly answeredBy: ReadonlySet<number | undefined>;
  /** How often pages were brought to host memory, and back. */
  readonly saves: number;
  readonly restores: number;
}

/** Drafts of a head, one behind the other or in trees. */
export type HeadDrafts = keyof typeof HEADS;

/** Three drafts. */
const BY_NGRAMS = { algorithm: "NGRAM", numDraftTokens: 4 } as const;
const EAGLE = { algorithm: "EAGLE", numSteps: 3 } as const;
const CHAIN = { numSteps: 3, eagleTopk: 1, numDraftTokens: 4 };
const TREE = { numSteps: 3, eagleTopk: 2, numDraftTokens: 6 };
const SPECULATION = {
  true: BY_NGRAMS,
  module: { ...EAGLE, ...CHAIN },
  trees: { ...TREE, algorithm: "EAGLE" },
  "large trees": { ...EAGLE, numSteps: 4, eagleTopk: 4, numDraftTokens: 16 },
  model: { ...CHAIN, algorithm: "STANDALONE" },
  "model trees": { ...TREE, algorithm: "STANDALONE" },
  EAGLE: { ...CHAIN, algorithm: "EAGLE" },
  EAGLE3: { ...CHAIN, algorithm: "EAGLE3" },
  "EAGLE trees": { ...TREE, algorithm: "EAGLE" },
  "EAGLE3 trees": { ...TREE, algorithm: "EAGLE3" },
} as const;

/** Which head makes them. */
const HEADS = {
  EAGLE: "EAGLE",
  EAGLE3: "EAGLE3",
  "EAGLE trees": "EAGLE",
  "EAGLE3 trees": "EAGLE3",
} as const;

/** Whether a head of the model's makes them. */
export const areOfHead = (drafts: Run["drafts"]): drafts is HeadDrafts =>
  typeof drafts === "string" && drafts in HEADS;

/** The requests of one model, and how they come out under any circumstances. */
export class Exactness {
  readonly model: ExactModel;
  readonly probes: readonly Probe[];
  /** Its prompt holds the whole answer to "greedy"; absent where the model has probes of its own. */
  readonly secondTurn: Probe | undefined;
  /** Prompts and answers of the first run. */
  #known: readonly (readonly number[])[] = [];

  private constructor(model: ExactModel, probes: readonly Probe[], secondTurn: Probe | undefined) {
    this.model = model;
    this.secondTurn = secondTurn;
    this.probes = secondTurn !== undefined && model.oneForm ? [...probes, secondTurn] : probes;
  }

  static async prepare(model: ExactModel): Promise<Exactness> {
    const size = Math.max(LONGEST, 256);
    const engine = await model.open({ contextLength: size, maxTotalTokens: size });
    try {
      if (model.probes !== undefined) {
        return new Exactness(model, await model.probes(engine), undefined);
      }
      const probes = tokenProbes(model);
      const { tokens } = await ask(engine, probes[0]!);
      return new Exactness(model, probes, {
        ...probes[0]!,
        requestId: "second turn",
        tokens: [...probes[0]!.tokens, ...tokens, 5, 9, 40],
      });
    } finally {
      await engine.close();
    }
  }

  #draftModel(drafts: Run["drafts"]): WeightSource | undefined {
    if (drafts === "model" || drafts === "model trees") return this.model.draftModel();
    return areOfHead(drafts) ? this.model.head?.(HEADS[drafts]) : undefined;
  }

  /** Images are read before all requests, which so come at once: no prompt stays in the cache. */
  async #readImages(engine: Engine | Apart | ReplicatedEngine): Promise<void> {
    for (const { logprobs: _, ...one } of this.probes) {
      await ask(engine, { ...one, sampling: { maxNewTokens: 1 } });
    }
    if ("flushCache" in engine) await engine.flushCache();
  }

  /** Fills a small cache until the probes' images are read, so that they begin together there too. */
  #occupy(
    engine: Engine | Apart | ReplicatedEngine,
    { maxTotalTokens }: Partial<EngineOptions>,
  ): Promise<unknown> {
    if (this.model.probes === undefined || maxTotalTokens === undefined) return Promise.resolve();
    const answer = 4 * TOKENS;
    const tokens = ids(70, maxTotalTokens - answer - 2, this.model);
    return ask(engine, { tokens, sampling: { maxNewTokens: answer, ignoreEos: true } });
  }

  async run({
    options = {},
    requests = 0,
    twice,
    alone,
    first,
    drafts,
    apart: prefillOptions,
    costs,
    replicas = 1,
    groups = 1,
  }: Run): Promise<Outcome> {
    if (drafts === true) draftFrom(this.#known, this.model);
    const adaptive = costs === undefined ? "auto" : "on";
    const speculates = drafts && {
      speculation: { ...SPECULATION[`${drafts}`], adaptive } as const,
      draftModel: this.#draftModel(drafts),
      ...(costs && { stepCosts: costs }),
    };
    const given = { maxTotalTokens: 4096, ...speculates, ...options };
    const open = (more: Partial<EngineOptions>) => this.model.open({ ...given, ...more });
    const travels = { transfersPages: true };
    const several = () =>
      groups > 1
        ? this.model.open(given, (source, all) =>
            loadGroupEngines(source, { ...all, attentionGroups: groups }),
          )
        : Promise.all(Array.from({ length: replicas }, () => open({})));
    const engine =
      prefillOptions !== undefined
        ? apart(await open({ ...travels, ...prefillOptions }), await open(travels))
        : replicas * groups > 1
          ? new ReplicatedEngine(await several())
          : await open({});
    const readsFirst = this.model.probes !== undefined && !alone && !prefillOptions;
    if (readsFirst && (requests > 0 || !twice)) await this.#readImages(engine);
    const saves = vi.spyOn(PageCodec.prototype, "readPages");
    const restores = vi.spyOn(PageCodec.prototype, "writePages");
    const { keptRows, entering, cut, plans } = watchPlans();
    const answers: Record<string, Answer[]> = {};
    const cachedTokens: Record<string, number> = {};
    const answeredBy = new Set<number | undefined>();
    const probe = async (request: Probe) => {
      const { cachedTokens: cached, replica, ...answer } = await ask(engine, request);
      answeredBy.add(replica);
      answers[request.requestId] = [...(answers[request.requestId] ?? []), answer];
      cachedTokens[request.requestId] = cached;
    };
    if (first === "greedy") await probe(this.probes[0]!);
    if (first === "second turn") await ask(engine, this.secondTurn!);
    const watch = new StepWatch();
    for (let round = 0; round < (twice ? 2 : 1); round++) {
      if (alone) for (const one of this.probes) await probe(one);
      else {
        const occupied = this.#occupy(engine, options);
        const count = Math.max(requests - this.probes.length, 0);
        const others = neighbours(count, this.model).map((request) => ask(engine, request));
        await Promise.all([...this.probes.map(probe), ...others, occupied]);
      }
    }
    watch.stop();
    const { retractions } = engine.status();
    const left = "left" in engine ? await engine.left() : [];
    const moves = { saves: saves.mock.calls.length, restores: restores.mock.calls.length };
    await engine.close();
    // Calls hold engines; mocks that are restored alone would keep them.
    vi.clearAllMocks();
    vi.restoreAllMocks();
    if (this.#known.length === 0) {
      this.#known = this.probes.map(({ requestId }) => [
        ...Array.from(watch.prompts.get(requestId)!, named),
        ...answers[requestId]![0]!.tokens,
      ]);
    }
    const ranks = plans.size;
    const made = { watch, retractions, keptRows, entering, cut, ranks, left, answeredBy };
    return { answers, cachedTokens, ...made, ...moves };
  }
}

/** An id as all engines have it: they name rows of images differently. */
const named = (id: number) => (id < 2 ** 52 ? id : -1);

/** Has the engine draft what known texts go on with, every third token wrong. */
function draftFrom(texts: readonly (readonly number[])[], { vocabularySize }: ExactModel): void {
  const told = new WeakMap<NgramProposer, number[]>();
  vi.spyOn(NgramProposer.prototype, "append").mockImplementation(function (
    this: NgramProposer,
    tokens,
  ) {
    told.set(this, [...(told.get(this) ?? []), ...Array.from(tokens, named)]);
  });
  vi.spyOn(NgramProposer.prototype, "propose").mockImplementation(function (
    this: NgramProposer,
    count,
  ) {
    const tokens = told.get(this)!;
    const text = texts.find((known) => tokens.every((token, i) => known[i] === token));
    return Array.from({ length: count }, (_, i) => {
      const at = tokens.length + i;
      const right = text?.[at] ?? 3;
      return at % 3 === 0 ? (right + 1) % vocabularySize : right;
    });
  });
}

/** Grow with each step, `keptRows` with each that is run with kept launches, `plans` with each other plan. */
function watchPlans() {
  const keptRows: number[] = [];
  const entering: boolean[] = [];
  const cut: number[][] = [];
  const plans = { size: 0 };
  // The mock outlives the engine, which its plans would hold.
  const known = new WeakSet<Plan<Step>>();
  const { run } = Plan.prototype;
  vi.spyOn(Plan.prototype, "run").mockImplementation(function (this: Plan<Step>, step, options) {
    if (!known.has(this)) plans.size += 1;
    known.add(this);
    if (options?.recording !== undefined) keptRows.push((step as Step).rows);
    entering.push((step as Step).draft !== undefined);
    const { microBatches } = step as Step;
    if (microBatches !== undefined) cut.push(microBatches.map(({ rows }) => rows));
    return run.call(this, step as Step, options);
  });
  return { keptRows, entering, cut, plans };
}

async function ask(
  engine: Engine | Apart | ReplicatedEngine,
  request: GenerationRequest,
): Promise<Answer & { readonly cachedTokens: number; readonly replica: number | undefined }> {
  let text = "";
  const tokens: number[] = [];
  const logprobs: TokenLogprobs[] = [];
  let promptLogprobs: readonly PromptLogprobs[] | undefined;
  let finish: FinishReason | null = null;
  let cachedTokens = 0;
  let replica: number | undefined;
  for await (const chunk of engine.generate(request)) {
    replica = chunk.dataParallelRank;
    text += chunk.text;
    tokens.push(...chunk.tokens);
    logprobs.push(...(chunk.logprobs ?? []));
    promptLogprobs ??= chunk.promptLogprobs;
    finish = chunk.finish;
    cachedTokens = chunk.cachedTokens;
  }
  return { text, tokens, logprobs, promptLogprobs, finish, cachedTokens, replica };
}

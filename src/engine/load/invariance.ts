/**
 * Whether a row's bits depend on what is computed with it: tried out on the model that was loaded.
 *
 * A compiler may add in another order in one kernel than in the next. So one sequence is computed in
 * each way that its rows can be computed, through all of the model's own kernels and weights: its
 * prompt at once and with the last token apart; its next token alone, among so many rows that every
 * form of a launch is taken, in a batch that is filled up, beside a sequence that is much longer, which
 * is computed alone too, as the last of a prompt where generated tokens have no form of their own, and
 * in one step with the token before it, as an answer that was interrupted is computed again. The logits
 * must be the same, and so must the best tokens be where the output head finds them without logits.
 * What is new in a model or a kernel is tried with it.
 *
 * @module
 */
import { largestOf } from "../../extremes.ts";
import { Readback } from "../../gpu/readback.ts";
import { formOf, formsFor } from "../../gpu/row_forms.ts";
import type { Batch, BatchSequence } from "../../layers/batch.ts";
import type { ModelRunner } from "../step/model_runner.ts";
import type { PreparedLoad } from "./prepare_load.ts";

export interface InvarianceOptions
  extends Pick<
    PreparedLoad,
    "sizes" | "definition" | "options" | "memoryBudget" | "promptsDiffer" | "tuning"
  > {
  /** With a cache that nothing is in use of. */
  readonly runner: ModelRunner;
  /** Of the model, which decides whether there is a second way to the best token. */
  readonly findsBest: boolean;
  /** Of the model's weights. */
  readonly dtypes: readonly string[];
}

/** Tokens of the prompt, where there is room for them, and neither experts nor forms ask for more. */
const PROMPT = 12;
/** Generated rows among which forms of launches are looked for. */
const MOST_ROWS = 16;

const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };

/** What gave other bits, one sentence each; empty on a good adapter. */
export async function invarianceFailures(options: InvarianceOptions): Promise<readonly string[]> {
  const { promptsDiffer } = options;
  const length = promptLength(options);
  if (length < 1) return [];
  const trial = new Trial(options, length);
  const failures: string[] = [];
  const compare = (what: string, rows: readonly Uint32Array[], wanted: Uint32Array) => {
    const differs = (row: Uint32Array) => row.some((bits, i) => bits !== wanted[i]);
    if (rows.some(differs)) failures.push(`${what}: the bits differ`);
  };
  try {
    const last = length - 1;
    const whole = await trial.prompt(0, length);
    if (last > 0) {
      await trial.prompt(0, last);
      // The cache's rounding could hide what a row before it has of other bits.
      compare("a prompt's last token apart", [await trial.prompt(last, 1)], whole);
    }
    const [alone] = await trial.generated(length, 1);
    const counts = rowCounts(options);
    for (const count of options.findsBest ? [1, ...counts] : []) {
      if (await trial.otherBest(length, count)) {
        failures.push(`the best of ${count} tokens alone: the ids differ`);
      }
    }
    for (const count of counts) {
      compare(`a token among ${count}`, await trial.generated(length, count), alone!);
    }
    const longer = await trial.besideLonger(length);
    if (longer !== undefined) {
      const [beside, together, apart] = longer;
      compare("a token beside a longer sequence", [beside], alone!);
      compare("a token of a longer sequence alone", [apart], together);
    }
    if (!promptsDiffer) {
      compare("a token as a prompt's last", [await trial.prompt(0, length + 1)], alone!);
    }
    const again = await trial.besideItsLast(length);
    if (again !== undefined) compare("a token beside its last", [again[0]], again[1]);
    return failures;
  } finally {
    trial.destroy();
  }
}

/** So many that they fill the largest form, and that experts are sorted, as once each serves two rows. */
function promptLength({ sizes, definition, tuning, dtypes }: InvarianceOptions): number {
  const { experts } = definition.facts;
  const sorted =
    experts === undefined
      ? 0
      : Math.ceil((2 * (experts.routed + experts.shared)) / (experts.perToken + experts.shared)) +
        1;
  const largest = dtypes.map((dtype) => formsFor(tuning, dtype).at(-1)!.tokens);
  const wanted = largestOf(largest, Math.max(PROMPT, sorted));
  return Math.min(wanted, sizes.contextLength - 1, sizes.maxRows - 1);
}

/** Numbers of rows that take each form there is, and one that a batch is filled up from. */
function rowCounts({ sizes, tuning, dtypes, options }: InvarianceOptions): readonly number[] {
  const most = Math.min(sizes.maxSequences, sizes.maxRows, MOST_ROWS);
  const counts = new Set<number>();
  for (const dtype of dtypes) {
    const forms = formsFor(tuning, dtype);
    const taken = new Set([formOf(forms, 1)]);
    for (let rows = 2; rows <= most; rows++) {
      const form = formOf(forms, rows);
      if (!taken.has(form)) counts.add(rows);
      taken.add(form);
    }
  }
  for (let rows = 2; rows <= most; rows++) {
    const bucket = options.decodeBuckets.find((size) => size >= rows);
    if (bucket === undefined || bucket === rows || bucket > sizes.maxSequences) continue;
    counts.add(rows);
    break;
  }
  return [...counts].sort((a, b) => a - b);
}

/** Runs steps of one sequence, which has the first pages of the cache. */
class Trial {
  readonly #options: InvarianceOptions;
  readonly #pageTable: readonly number[];
  readonly #readback: Readback;

  /** @param length Tokens of the prompt; one more is computed behind it. */
  constructor(options: InvarianceOptions, length: number) {
    const { runner, sizes } = options;
    const pages = Math.ceil((length + 1) / sizes.pageSize);
    this.#options = options;
    this.#pageTable = Array.from({ length: pages }, (_, page) => page);
    this.#readback = new Readback(runner.recorder.device, runner.logitsStride * 4, 2);
  }

  /** Computes prompt rows from a position on; the last one's logits. */
  async prompt(position: number, count: number): Promise<Uint32Array> {
    const rows = { position, queryLength: count, pageTable: this.#pageTable };
    const [logits] = await this.#run([{ phase: "prefill", ...rows }], [count - 1]);
    return logits!;
  }

  /** Computes the token at a position so many times in one step; logits of the first and the last. */
  generated(position: number, count: number): Promise<readonly Uint32Array[]> {
    const row = { position, queryLength: 1, pageTable: this.#pageTable };
    const rows = Array.from({ length: count }, () => ({ phase: "decode" as const, ...row }));
    return this.#run(
      rows,
      rows.map((_, i) => i),
    );
  }

  /** Whether such a step has other ids where the best of each row is all that is wanted of it. */
  async otherBest(position: number, count: number): Promise<boolean> {
    const { runner } = this.#options;
    const row = { position, queryLength: 1, pageTable: this.#pageTable };
    const rows = Array.from({ length: count }, () => ({ phase: "decode" as const, ...row }));
    const { batch, sampled } = this.#batch(
      rows,
      rows.map((_, i) => i),
    );
    const wanted = await runner.run(batch, sampled, { keepsLogits: true });
    const ids = await runner.run(batch, sampled);
    return ids.some((id, i) => id !== wanted[i]);
  }

  /**
   * The same beside a token whose attention takes one split more, that token, and once more that token
   * alone; undefined without room for it.
   */
  async besideLonger(
    position: number,
  ): Promise<readonly [Uint32Array, Uint32Array, Uint32Array] | undefined> {
    const { sizes, memoryBudget } = this.#options;
    const { shape, contextLength, maxSequences, pageSize } = sizes;
    const pageCount = memoryBudget.cacheTokens / pageSize;
    const far = shape.splitLength;
    const spare = this.#pageTable.length;
    const length = Math.ceil((far + 1) / pageSize);
    // What is written is not read as another position's: all earlier pages are one, the last is not.
    const pages = Array.from({ length }, (_, i) => (i === length - 1 ? spare : spare + 1));
    const hasRoom = largestOf(pages) < pageCount && far < contextLength;
    if (!hasRoom || maxSequences < 2) return undefined;
    const one = { phase: "decode", queryLength: 1 } as const;
    const longer = { ...one, position: far, pageTable: pages };
    const both = [{ ...one, position, pageTable: this.#pageTable }, longer];
    const [beside, together] = await this.#run(both, [0, 1]);
    const [apart] = await this.#run([longer], [0]);
    return [beside!, together!, apart!];
  }

  /**
   * The same as a generated one behind a generated one: both in one step, and one after the other.
   * Undefined without room for it.
   */
  async besideItsLast(position: number): Promise<readonly [Uint32Array, Uint32Array] | undefined> {
    const { sizes, memoryBudget } = this.#options;
    const taken = this.#pageTable.length;
    const hasRoom = 2 * taken * sizes.pageSize <= memoryBudget.cacheTokens;
    if (!hasRoom || sizes.maxSequences < 2) return undefined;
    const first = position - 1;
    const one = { phase: "decode", queryLength: 1 } as const;
    await this.#run([{ ...one, position: first, pageTable: this.#pageTable }], [0]);
    const [apart] = await this.#run([{ ...one, position, pageTable: this.#pageTable }], [0]);
    // Pages that do not hold already what the two rows write there.
    const pageTable = this.#pageTable.map((page) => page + taken);
    const prompt = { phase: "prefill", queryLength: first, position: 0, pageTable } as const;
    if (first > 0) await this.#run([prompt], [first - 1]);
    const both = { phase: "decode", queryLength: 2, position: first, pageTable } as const;
    const [together] = await this.#run([both], [1]);
    return [together!, apart!];
  }

  #batch(parts: readonly Omit<BatchSequence, "queryStart">[], logitRows: readonly number[]) {
    const { vocabularySize } = this.#options.sizes.shape;
    const tokens: number[] = [];
    const sequences = parts.map((part) => {
      const queryStart = tokens.length;
      // Anything, as long as it is the same at the same position.
      for (let i = 0; i < part.queryLength; i++) {
        tokens.push((31 * (part.position + i) + 3) % vocabularySize);
      }
      return { ...part, queryStart };
    });
    const batch: Batch = {
      sequences,
      sources: Uint32Array.from(tokens),
      logitRows: Uint32Array.from(logitRows),
    };
    return { batch, sampled: logitRows.map(() => ({ sampling: GREEDY, position: 0 })) };
  }

  async #run(
    parts: readonly Omit<BatchSequence, "queryStart">[],
    logitRows: readonly number[],
  ): Promise<readonly Uint32Array[]> {
    const { runner } = this.#options;
    const { batch, sampled } = this.#batch(parts, logitRows);
    await runner.run(batch, sampled, { keepsLogits: true });
    const first = this.#logits(0);
    const last = logitRows.length > 1 ? this.#logits(logitRows.length - 1) : undefined;
    runner.recorder.submit();
    const bytes = await Promise.all([first(), ...(last === undefined ? [] : [last()])]);
    return bytes.map((row) => new Uint32Array(row));
  }

  #logits(row: number): () => Promise<ArrayBuffer> {
    const { runner, sizes } = this.#options;
    const { logits, logitsStride } = runner;
    const from = { ...logits, offset: logits.offset + row * logitsStride * 4 };
    return this.#readback.record(runner.recorder, from, sizes.shape.vocabularySize * 4);
  }

  destroy(): void {
    this.#readback.destroy();
  }
}

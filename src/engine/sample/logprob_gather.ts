/**
 * Log-probabilities on their way from the logits to those who asked: gathered on the GPU, so that
 * only the numbers wanted are read back, and nothing when no request asks.
 *
 * @module
 */
import {
  LOGPROB_WORDS,
  type LogprobItem,
  logprobs,
  writeLogprobItem,
} from "../../../kernels/sampling/logprobs.ts";
import { allocating } from "../../gpu/device.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import { MOST_IN_FLIGHT } from "../schedule/lookahead.ts";
import type { LogprobWish, SampledRow, ScoredRow } from "./sampled_row.ts";

export interface LogprobGatherOptions {
  /** Rows whose logits may be wanted in one step. */
  readonly maxRows: number;
  readonly vocabularySize: number;
  /** `[maxRows, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** `[maxRows]` u32: where the sampled ids are */
  readonly sampled: Tensor;
}

interface Wanted {
  readonly row: number;
  /** Absent: the one sampled from the row. */
  readonly token?: number;
  readonly wish: LogprobWish;
}

/** Tensors that grow with what is asked for. */
interface Results {
  readonly wanted: Tensor;
  readonly tokens: Tensor;
  readonly values: Tensor;
  readonly readTokens: Readback;
  readonly readValues: Readback;
}

const FIRST_CAPACITY = 64;

export class LogprobGather {
  readonly #options: LogprobGatherOptions;
  readonly #memory: DeviceMemory;
  readonly #items: Tensor;
  readonly #hostItems: DataView<ArrayBuffer>;
  /** Results, and tokens wanted, that one step may have. */
  #capacity = FIRST_CAPACITY;
  #results: Results | undefined;
  readonly #readbacks: Readback[] = [];
  #launch: (items: number) => void = () => {};
  #wanted: readonly Wanted[] = [];
  #resultCount = 0;
  #deliver: (() => Promise<void>) | undefined;

  constructor(memory: DeviceMemory, options: LogprobGatherOptions) {
    const bytes = options.maxRows * LOGPROB_WORDS * 4;
    this.#options = options;
    this.#memory = memory;
    this.#items = memory.allocate("activations", bytes, "log-probability items");
    this.#hostItems = new DataView(new ArrayBuffer(bytes));
  }

  /** Adds the launch. */
  compile(plan: Plan<Step>): void {
    const { recorder } = plan;
    this.#bind(recorder);
    plan.addVarying(() => {
      this.#deliver = undefined;
      if (this.#wanted.length === 0) return;
      this.#launch(this.#wanted.length);
      this.#deliver = this.#readBack(recorder);
    });
  }

  /**
   * Allocates what the next step's rows need and is not there yet.
   *
   * @returns `undefined` when there is nothing to wait for.
   * @throws {DeviceError} when the device has no memory for it.
   */
  makeRoom(
    recorder: Recorder,
    sampled: readonly SampledRow[],
    scored: readonly ScoredRow[],
  ): Promise<void> | undefined {
    const needed = wantedRows(sampled, scored).reduce((sum, { wish }) => sum + this.#size(wish), 0);
    if (needed <= this.#capacity) return undefined;
    return allocating(recorder.device, "memory for log-probabilities", () => {
      this.#capacity = Math.max(needed, 2 * this.#capacity);
      this.#bind(recorder);
    });
  }

  /**
   * Takes the next step's rows: those sampled come first among the rows of logits.
   *
   * @returns Whether anything of them is wanted.
   */
  prepare(sampled: readonly SampledRow[], scored: readonly ScoredRow[]): boolean {
    this.#wanted = wantedRows(sampled, scored);
    this.#resultCount = 0;
    if (this.#wanted.length === 0) return false;
    const ids: number[] = [];
    this.#wanted.forEach(({ row, token, wish }, i) => {
      const item: LogprobItem = {
        row,
        token,
        temperature: wish.temperature,
        top: this.#top(wish),
        firstWanted: ids.length,
        wantedCount: wish.tokenIds.length,
        out: this.#resultCount,
      };
      writeLogprobItem(this.#hostItems, i, item);
      for (const id of wish.tokenIds) ids.push(id);
      this.#resultCount += this.#size(wish);
    });
    const words = this.#wanted.length * LOGPROB_WORDS;
    this.#memory.write(this.#items, 0, new Uint32Array(this.#hostItems.buffer, 0, words));
    if (ids.length > 0) this.#memory.write(this.#results!.wanted, 0, Uint32Array.from(ids));
    return true;
  }

  /** What brings the recorded step's results to those who asked, once the GPU has got there. */
  takeDelivery(): (() => Promise<void>) | undefined {
    const deliver = this.#deliver;
    this.#deliver = undefined;
    return deliver;
  }

  destroy(): void {
    for (const readback of this.#readbacks) readback.destroy();
  }

  #top({ top }: LogprobWish): number {
    return Math.min(top, this.#options.vocabularySize);
  }

  /** Results of one row. */
  #size(wish: LogprobWish): number {
    return 1 + this.#top(wish) + wish.tokenIds.length;
  }

  #readBack(recorder: Recorder): () => Promise<void> {
    const { tokens, values, readTokens, readValues } = this.#results!;
    const wanted = this.#wanted;
    const bytes = this.#resultCount * 4;
    const reads = [
      readTokens.record(recorder, tokens, bytes),
      readValues.record(recorder, values, bytes),
    ];
    return async () => {
      const [ids, logprobs] = await Promise.all(reads.map((read) => read()));
      let at = 0;
      for (const { wish } of wanted) {
        const end = at + this.#size(wish);
        const own = new Uint32Array(ids!).subarray(at, end);
        wish.deliver(own, new Float32Array(logprobs!).subarray(at, end));
        at = end;
      }
    };
  }

  #bind(recorder: Recorder): void {
    const { device } = recorder;
    const {
      logits,
      logitsStride: stride,
      sampled: ids,
      vocabularySize: vocabulary,
    } = this.#options;
    const bytes = this.#capacity * 4;
    const allocate = (label: string) => this.#memory.allocate("activations", bytes, label);
    this.#results = {
      wanted: allocate("tokens wanted"),
      tokens: allocate("log-probability tokens"),
      values: allocate("log-probabilities"),
      readTokens: new Readback(device, bytes, MOST_IN_FLIGHT),
      readValues: new Readback(device, bytes, MOST_IN_FLIGHT),
    };
    const { wanted, tokens, values, readTokens, readValues } = this.#results;
    this.#readbacks.push(readTokens, readValues);
    const items = this.#items;
    const tensors = { items, ids, wanted, logits, tokens, values };
    this.#launch = logprobs(recorder, { ...tensors, stride, vocabulary });
  }
}

function wantedRows(
  sampled: readonly SampledRow[],
  scored: readonly ScoredRow[],
): readonly Wanted[] {
  const wanted: Wanted[] = [];
  sampled.forEach(({ logprobs: wish }, row) => {
    if (wish !== undefined) wanted.push({ row, wish });
  });
  scored.forEach(({ token, logprobs: wish }, i) => {
    wanted.push({ row: sampled.length + i, token, wish });
  });
  return wanted;
}

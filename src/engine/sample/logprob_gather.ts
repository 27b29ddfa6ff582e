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
import { allocateAll, GrownMemory } from "./grown_memory.ts";
import {
  beyond,
  type GrowingPart,
  type LogitRows,
  type LogprobWish,
  type SampledRow,
  type ScoredRow,
} from "./sampled_row.ts";

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

interface Wanted extends Pick<SampledRow, "fail"> {
  readonly row: number;
  /** Absent: the one sampled from the row. */
  readonly token?: number;
  readonly wish: LogprobWish;
}

/** Where the results of a step go. */
interface Results {
  /** Results, and tokens wanted, that one step may have. */
  readonly capacity: number;
  readonly wanted: Tensor;
  readonly tokens: Tensor;
  readonly values: Tensor;
  readonly readTokens: Readback;
  readonly readValues: Readback;
  readonly launch: (items: number) => void;
  free(): void;
}

/** Results of a step that there is always room for. */
const LEAST_CAPACITY = 64;

export class LogprobGather implements GrowingPart {
  readonly #options: LogprobGatherOptions;
  readonly #memory: DeviceMemory;
  readonly #items: Tensor;
  readonly #hostItems: DataView<ArrayBuffer>;
  #recorder: Recorder | undefined;
  #results: GrownMemory<Results> | undefined;
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
    this.#recorder = recorder;
    this.#results = new GrownMemory(this.#allocate(recorder, LEAST_CAPACITY));
    plan.addVarying(() => {
      this.#deliver = undefined;
      if (this.#wanted.length === 0) return;
      this.#results!.current.launch(this.#wanted.length);
      this.#deliver = this.#readBack(recorder);
    });
  }

  isShortFor(rows: LogitRows): boolean {
    return this.#need(wantedRows(rows)) > this.#results!.current.capacity;
  }

  async growFor(rows: LogitRows): Promise<void> {
    // In powers of two, so that a few more do not allocate again.
    const capacity = 2 ** Math.ceil(Math.log2(this.#need(wantedRows(rows))));
    const recorder = this.#recorder!;
    let results: Results | undefined;
    try {
      await allocating(recorder.device, "memory for log-probabilities", () => {
        results = this.#allocate(recorder, capacity);
      });
    } catch (error) {
      results?.free();
      throw error;
    }
    this.#results!.grow(results!);
  }

  without({ sampled, scored }: LogitRows, error: unknown): LogitRows {
    const sizes = [...sampled, ...scored].map(({ logprobs }) => logprobs && this.#size(logprobs));
    const gone = beyond(
      sizes.map((size) => size ?? 0),
      this.#results!.current.capacity,
    );
    const keep = <Row extends SampledRow | ScoredRow>(row: Row, i: number): Row => {
      if (!gone.has(i)) return row;
      row.fail?.(error);
      return { ...row, logprobs: undefined };
    };
    return {
      sampled: sampled.map(keep),
      scored: scored.map((row, i) => keep(row, sampled.length + i)),
    };
  }

  /**
   * Takes the next step's rows, which there is room for.
   *
   * @returns Whether anything of them is wanted.
   */
  prepare(rows: LogitRows): boolean {
    this.#wanted = wantedRows(rows);
    this.#resultCount = 0;
    this.#results!.beginStep(this.#need(this.#wanted) > LEAST_CAPACITY);
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
    const { wanted } = this.#results!.current;
    if (ids.length > 0) this.#memory.write(wanted, 0, Uint32Array.from(ids));
    return true;
  }

  /** What brings the recorded step's results to those who asked, once the GPU has got there. */
  takeDelivery(): (() => Promise<void>) | undefined {
    const deliver = this.#deliver;
    this.#deliver = undefined;
    return deliver;
  }

  destroy(): void {
    this.#results?.destroy();
    if (this.#results !== undefined) this.#results.current.free();
  }

  #top({ top }: LogprobWish): number {
    return Math.min(top, this.#options.vocabularySize);
  }

  /** Results of one row. */
  #size(wish: LogprobWish): number {
    return 1 + this.#top(wish) + wish.tokenIds.length;
  }

  #need(wanted: readonly Wanted[]): number {
    return wanted.reduce((sum, { wish }) => sum + this.#size(wish), 0);
  }

  #readBack(recorder: Recorder): () => Promise<void> {
    const { tokens, values, readTokens, readValues } = this.#results!.current;
    const wanted = this.#wanted;
    const bytes = this.#resultCount * 4;
    const reads = [
      readTokens.record(recorder, tokens, bytes),
      readValues.record(recorder, values, bytes),
    ];
    return async () => {
      const [ids, logprobs] = await Promise.all(reads.map((read) => read()));
      let at = 0;
      for (const one of wanted) {
        const end = at + this.#size(one.wish);
        const own = new Uint32Array(ids!).subarray(at, end);
        deliver(one, own, new Float32Array(logprobs!).subarray(at, end));
        at = end;
      }
    };
  }

  #allocate(recorder: Recorder, capacity: number): Results {
    const { device } = recorder;
    const {
      logits,
      logitsStride: stride,
      sampled: ids,
      vocabularySize: vocabulary,
    } = this.#options;
    const bytes = capacity * 4;
    return allocateAll((allocations) => {
      const tensor = (label: string) =>
        allocations.add(this.#memory.allocate("activations", bytes, label), (one) =>
          this.#memory.free(one),
        );
      const readback = () =>
        allocations.add(new Readback(device, bytes, MOST_IN_FLIGHT), (one) => one.destroy());
      const wanted = tensor("tokens wanted");
      const tokens = tensor("log-probability tokens");
      const values = tensor("log-probabilities");
      const [readTokens, readValues] = [readback(), readback()];
      const tensors = { items: this.#items, ids, wanted, logits, tokens, values };
      const { bound: launch, free } = recorder.binding(() =>
        logprobs(recorder, { ...tensors, stride, vocabulary }),
      );
      allocations.add(free, () => free());
      const all = { capacity, wanted, tokens, values, readTokens, readValues, launch };
      return { ...all, free: () => allocations.free() };
    });
  }
}

/** What goes wrong with one row's results is no other row's matter. */
function deliver({ wish, fail }: Wanted, tokens: Uint32Array, logprobs: Float32Array): void {
  try {
    wish.deliver(tokens, logprobs);
  } catch (error) {
    if (fail === undefined) throw error;
    fail(error);
  }
}

function wantedRows({ sampled, scored }: LogitRows): readonly Wanted[] {
  const wanted: Wanted[] = [];
  sampled.forEach(({ logprobs: wish, fail }, row) => {
    if (wish !== undefined) wanted.push({ row, wish, fail });
  });
  scored.forEach(({ token, logprobs: wish, fail }, i) => {
    if (wish !== undefined) wanted.push({ row: sampled.length + i, token, wish, fail });
  });
  return wanted;
}

/**
 * The first rank of a group whose other ranks are elsewhere, in processes of their own: it schedules
 * for all of them, and sends each step as plain data before it computes its own part of it.
 *
 * @module
 */
import type { PageCopy } from "../../cache/page_copier.ts";
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { modelHash } from "../../checkpoint/model_hash.ts";
import { UnsupportedError } from "../../errors.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Batch } from "../../layers/batch.ts";
import { agree } from "../../parallel/agree.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import { type LoadedModel, loadModel } from "../load/load.ts";
import type { LoadOptions } from "../load/load_options.ts";
import type { SampledRow } from "../sample/sampled_row.ts";
import type { ModelRunner } from "../step/model_runner.ts";
import type { StepOptions, StepRunner, SubmittedStep } from "../step/step_runner.ts";
import type { EngineModel } from "./engine_model.ts";
import { OrderChannel, type PlainFormat } from "./order_channel.ts";
import { OrderWriter } from "./order_writer.ts";

/** The ranks that are processes, as one of them has them. */
export interface RankLink {
  readonly communicator: Communicator;
  readonly format: PlainFormat;
}

/** What an engine on the first rank is loaded with: its model is one whose other ranks follow it. */
export const ledRanks = (link: RankLink) => ({
  communicator: link.communicator,
  loadRanks: (checkpoint: Checkpoint, options: LoadOptions) =>
    loadLeader(checkpoint, link, options),
});

/**
 * Loads this rank's part of a model whose other ranks `loadFollower` loads. The caller, once it
 * has destroyed the model, tells them that the work is done (`endOrders`), or leaves their group.
 *
 * @throws {UnsupportedError} naming an option that only ranks of one process can do.
 * @throws As `loadModel`.
 */
async function loadLeader(
  checkpoint: Checkpoint,
  link: RankLink,
  options: LoadOptions,
): Promise<EngineModel> {
  requireOrdersSuffice(options);
  const leaving = new LeavingCommunicator(link.communicator);
  const loaded = await loadAlike(checkpoint, { ...options, communicator: leaving.communicator });
  const leader = new RankLeader(loaded, { ...link, communicator: leaving.communicator });
  return {
    ...loaded,
    runner: leader,
    copier: loaded.copier && {
      copy: (copies) => {
        leader.copy(copies);
        loaded.copier!.copy(copies);
      },
    },
    codec: undefined,
    destroy: () => {
      leaving.isInOrder = true;
      loaded.destroy();
    },
  };
}

/** @throws {UnsupportedError} for what an order cannot say yet. */
function requireOrdersSuffice({
  retractionMemory = 0,
  prefixStore,
  transfersPages,
  tensorParallelSize,
  experts,
}: LoadOptions): void {
  const refuse = (field: string, reason: string) => {
    throw new UnsupportedError(field, reason, { field });
  };
  const apart = "ranks that are processes do not bring their pages together";
  if (retractionMemory > 0) refuse("retractionMemory", apart);
  if (prefixStore !== undefined) refuse("prefixStore", apart);
  if (transfersPages) refuse("transfersPages", apart);
  if (experts?.rebalance !== undefined) {
    refuse("experts.rebalance", "ranks that are processes do not move experts");
  }
  if (tensorParallelSize !== undefined) {
    refuse("tensorParallelSize", "the group says how many ranks there are");
  }
}

/**
 * Loads a rank's part of a model, of which no other rank can see what it was loaded from.
 *
 * @throws {GroupError} on every rank, when one of them has another checkpoint or computes in another
 * class.
 */
export async function loadAlike(
  checkpoint: Checkpoint,
  options: LoadOptions & { readonly communicator: Communicator },
): Promise<LoadedModel> {
  const { communicator } = options;
  await agree(communicator, "what they load", { checkpoint: await modelHash(checkpoint) });
  const loaded = await loadModel(checkpoint, options);
  const { prefill, decode } = loaded.figures.numericClasses;
  try {
    await agree(communicator, "numeric classes", { prefill, decode });
  } catch (error) {
    loaded.destroy();
    throw error;
  }
  return loaded;
}

/** A rank's end of its group, which it may leave without breaking it. */
export class LeavingCommunicator {
  isInOrder = false;
  readonly communicator: Communicator;

  constructor(group: Communicator) {
    const { rank, size } = group;
    this.communicator = {
      rank,
      size,
      allGather: (part, into, exchange) => group.allGather(part, into, exchange),
      abort: (reason) => {
        if (!this.isInOrder) group.abort(reason);
      },
    };
  }
}

class RankLeader implements StepRunner {
  readonly #runner: ModelRunner;
  readonly #communicator: Communicator;
  readonly #channel: OrderChannel;
  readonly #writer: OrderWriter;
  #copies: PageCopy[] = [];
  /** What the others have not been told of, and the wait for more. */
  #drawn: Uint32Array[] = [];
  #drawing: Promise<void> = Promise.resolve();

  constructor({ runner, options }: LoadedModel, { communicator, format }: RankLink) {
    this.#runner = runner;
    this.#communicator = communicator;
    this.#channel = new OrderChannel(communicator, format);
    this.#writer = new OrderWriter(options.maxRunningRequests);
  }

  get recorder(): Recorder {
    return this.#runner.recorder;
  }

  get maxScoredRows(): number {
    return this.#runner.maxScoredRows;
  }

  /** Has the others copy pages too, before the next step. */
  copy(copies: readonly PageCopy[]): void {
    for (const one of copies) this.#copies.push(one);
  }

  /** Resolves when the step is on this rank's queue, and with the others. */
  async submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions = {},
  ): Promise<SubmittedStep> {
    try {
      return await this.#submit(batch, sampling, options);
    } catch (error) {
      // The others wait for the next order, or for this rank's part of the step.
      this.#communicator.abort(`its step failed: ${(error as Error).message}`);
      throw error;
    }
  }

  async #submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions,
  ): Promise<SubmittedStep> {
    const { scored = [], drafts } = options;
    const sampled = sampling.map(withoutProcessor);
    const rows = await this.#runner.makeRoom({ sampled, scored });
    const [copies, drawn] = [this.#copies, this.#drawn];
    this.#copies = [];
    this.#drawn = [];
    const step = this.#writer.write({ batch, rows, drafts });
    await this.#channel.send({ type: "step", copies, drawn, ...step });
    const own = { ...options, scored: rows.scored };
    const submitted = await this.#runner.submit(batch, rows.sampled, own);
    // In the order of the steps, though a later one may be delivered first.
    this.#drawing = this.#drawing
      .then(() => submitted.tokens)
      .then((tokens) => {
        this.#drawn.push(tokens);
      });
    // No step of ranks that are processes is computed again: the others are not to wait for the next.
    this.#drawing.catch((error: Error) => {
      this.#communicator.abort(`its step failed: ${error.message}`);
    });
    return submitted;
  }
}

/**
 * Tells the other ranks that there is nothing left to do.
 *
 * @throws {GroupError} when one of them has left before.
 */
export function endOrders({ communicator, format }: RankLink): Promise<void> {
  return new OrderChannel(communicator, format).send({ type: "end" });
}

/** A function cannot go to another process: its request ends, and no other. */
function withoutProcessor(row: SampledRow): SampledRow {
  if (row.processor === undefined) return row;
  const field = "logitProcessors";
  row.fail?.(new UnsupportedError(field, "the ranks of this engine are processes", { field }));
  return { ...row, processor: undefined };
}

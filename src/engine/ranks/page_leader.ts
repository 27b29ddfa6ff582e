/**
 * The first rank's side of pages that ranks move together: those of all ranks, or of an attention group.
 *
 * @module
 */
import type { PageCopy } from "../../cache/page_copier.ts";
import { DeviceError } from "../../errors.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import { pageCarrier } from "../draft_model/draft_pages.ts";
import type { EngineModel } from "./engine_model.ts";
import type { LedModel } from "./led_group.ts";
import { type ByteExchanges, LedPages, ledCarrier, type PagesLeader } from "./led_pages.ts";
import { haveMoved, requireMoved, type SharedOutcome, shareOutcome } from "./page_outcomes.ts";
import type { PagesTask, RanksInARow } from "./rank_orders.ts";

export class PageLeader implements PagesLeader {
  readonly communicator: Communicator;
  readonly ranks: RanksInARow;
  /** Whether the model is not there any more. */
  isGone = false;
  readonly #model: LedModel;
  #copies: PageCopy[] = [];

  /** @param ranks Those that have the pages. */
  constructor(model: LedModel, ranks: RanksInARow) {
    this.communicator = model.communicator;
    this.ranks = ranks;
    this.#model = model;
  }

  /** Whether this rank has some of the pages. */
  get isOne(): boolean {
    return this.ranks.first === 0;
  }

  /** The others copy these pages too, before the next step. */
  copy(copies: readonly PageCopy[]): void {
    for (const one of copies) this.#copies.push(one);
    if (this.isOne) this.#model.loaded.copier!.copy(copies);
  }

  /** What the others have not been told of. */
  takeCopies(): readonly PageCopy[] {
    return this.#copies.splice(0);
  }

  async lead<T>(
    task: PagesTask,
    own: () => Promise<T>,
    exchanges: ByteExchanges<T> = {},
  ): Promise<T> {
    let outcome: SharedOutcome<T>;
    try {
      outcome = await this.#model.group.inTurn(() => this.#lead(task, own, exchanges));
    } catch (error) {
      // The others wait for what is exchanged next.
      this.communicator.abort(`its pages did not move: ${(error as Error).message}`);
      throw error;
    }
    try {
      return requireMoved(outcome);
    } catch (error) {
      throw this.told(error);
    }
  }

  requireHere(): void {
    if (this.isGone) throw gone();
  }

  told(error: unknown): unknown {
    return error instanceof DeviceError ? this.#model.lossBy(error) : error;
  }

  async #lead<T>(
    task: PagesTask,
    own: () => Promise<T>,
    { before, behind }: ByteExchanges<T>,
  ): Promise<SharedOutcome<T>> {
    const { group, loaded } = this.#model;
    if (this.isGone) {
      // The others would move pages of the next model.
      return { own: { status: "rejected", reason: gone() }, all: new Uint8Array(0) };
    }
    const { ranks } = this;
    const copies = this.takeCopies();
    await group.send({ ...task, ranks, copies, released: group.takeReleased() });
    await before?.();
    const outcome = await shareOutcome(this.communicator, loaded.device, own);
    if (behind === undefined || !haveMoved(outcome)) return outcome;
    const value = await behind((outcome.own as PromiseFulfilledResult<T>).value);
    return { ...outcome, own: { status: "fulfilled", value } };
  }
}

const gone = () => new DeviceError("Cannot move cache pages: the device is lost");

/** What moves the pages of the ranks that `leader` has move theirs, as an engine has it. */
export function ledMovers(
  { loaded: { copier, codec, draftPages: draft }, group }: LedModel,
  leader: PageLeader,
): Pick<EngineModel, "copier" | "codec" | "retracted"> {
  const sides = () => ({ codec: codec!, draft });
  return {
    copier: copier && { copy: (copies) => leader.copy(copies) },
    codec: codec && new LedPages(codec, leader),
    retracted: codec && ledCarrier(pageCarrier(sides), leader, group),
  };
}

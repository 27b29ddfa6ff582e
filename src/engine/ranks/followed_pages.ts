/**
 * Pages of the cache that a rank moves when the first one says so, and keeps for it.
 *
 * @module
 */
import { KernelError } from "../../errors.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import { pageCarrier, prefixCarrier } from "../draft_model/draft_pages.ts";
import type { LoadedModel } from "../load/load.ts";
import { haveMoved, shareOutcome } from "./page_outcomes.ts";
import { type PagesOrder, pageParts, type RanksInARow } from "./rank_orders.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const NOTHING = new Uint8Array(0);

export class FollowedPages {
  readonly #communicator: Communicator;
  /** Of sequences that wait, by the first rank's numbers. */
  readonly #kept = new Map<number, Bytes>();

  constructor(communicator: Communicator) {
    this.#communicator = communicator;
  }

  /**
   * Moves this rank's part. What becomes of it the first rank hears, and decides.
   *
   * @throws {GroupError} when a rank has left.
   */
  async move(order: PagesOrder, loaded: LoadedModel): Promise<void> {
    const communicator = this.#communicator;
    const { ranks } = order;
    const isOne = isAmong(communicator.rank, ranks);
    for (const id of order.released) this.#kept.delete(id);
    if (isOne && order.copies.length > 0) loaded.copier!.copy(order.copies);
    const parts = pageParts(communicator, ranks, loaded.codec!.layout);
    const given = order.type === "write" ? await parts.spread(NOTHING, order.length) : undefined;
    const moves = order.type === "read" ? parts.isOwner : isOne;
    const outcome = await shareOutcome(communicator, loaded.device, async () =>
      moves ? await this.#moveOwn(order, loaded, given) : undefined,
    );
    if (order.type !== "read" || !haveMoved(outcome)) return;
    const value = (outcome.own as PromiseFulfilledResult<Bytes | undefined>).value ?? NOTHING;
    await parts.gather(value, value.length);
  }

  /** @returns What is read, if something is. */
  async #moveOwn(
    order: PagesOrder,
    { codec, draftPages: draft }: LoadedModel,
    given: Bytes | undefined,
  ): Promise<Bytes | undefined> {
    const sides = () => ({ codec: codec!, draft });
    const { pages } = order;
    if (order.type === "read") return codec!.readPages(pages, order.range);
    if (order.type === "save") {
      this.#kept.set(order.id, await pageCarrier(sides).readPages(pages));
      return undefined;
    }
    const { skip } = order;
    if (order.type === "write") {
      await prefixCarrier(sides).writePages(given!, pages, { skip });
      return undefined;
    }
    const kept = this.#kept.get(order.id);
    if (kept === undefined) throw new KernelError("cache pages", "this rank keeps none of these");
    await pageCarrier(sides).writePages(kept, pages, { skip });
    return undefined;
  }
}

/** Whether a rank is one of them. */
function isAmong(rank: number, { first, count }: RanksInARow): boolean {
  return rank >= first && rank < first + count;
}

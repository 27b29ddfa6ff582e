/**
 * Pages of one prompt on their way into a decode server's cache: those of a prefill server with other
 * ranks or another page size become what the engine takes.
 *
 * @module
 */
import type { PageForm } from "../cache/page_form.ts";
import { PageSizes } from "../cache/page_sizes.ts";
import type { PageRun, TravellingPrompt } from "../engine/transfer/page_routes.ts";

/** What comes, and where it goes. */
export interface PagesGiven {
  /** Of the engine that takes them. */
  readonly form: PageForm;
  /** Whether they come as one rank would have them. */
  readonly isWhole: boolean;
  /** Tokens of one that comes. */
  readonly pageSize: number;
}

export class ArrivingPages {
  /** The prefill server's first page that is wanted. */
  readonly first: number;
  readonly #given: PagesGiven;
  /** Undefined where pages are of one size. */
  readonly #sizes: PageSizes | undefined;

  /** @param first The first page that the engine wants. */
  constructor(given: PagesGiven, { tokens, pageSize }: TravellingPrompt, first: number) {
    this.#given = given;
    if (given.pageSize !== pageSize) {
      const layout = { ...given.form.whole, pageSize: given.pageSize };
      const travelling = tokens.length - 1;
      this.#sizes = new PageSizes({ given: layout, pageSize, tokens: travelling, first });
    }
    this.first = this.#sizes?.first ?? first;
  }

  /**
   * Takes pages that have come, in their order.
   *
   * @returns Undefined where they complete none of the engine's.
   * @throws {TransferError} naming what is wrong with them.
   */
  take(run: PageRun): PageRun | undefined {
    const { form, isWhole } = this.#given;
    const pages = this.#sizes === undefined ? run : this.#sizes.take(run);
    return pages && isWhole ? { ...pages, bytes: form.cut(pages.bytes) } : pages;
  }
}

/**
 * Pages of prompts that travel between engines: those that leave, and those that come.
 *
 * @module
 */
import type { ScheduledStep } from "../schedule/scheduled_step.ts";
import type { Sequence } from "../schedule/sequence.ts";
import { PageArrivals, type PageArrivalsOptions } from "./page_arrivals.ts";
import { PageDepartures, type PageDeparturesOptions } from "./page_departures.ts";
import type { PageRoutes } from "./page_routes.ts";

type Options = Omit<PageDeparturesOptions, "pageSize"> & PageArrivalsOptions;

export class TravellingPages {
  readonly #departures: PageDepartures;
  readonly #arrivals: PageArrivals;
  readonly #wake: () => void;
  #isClosed = false;

  constructor(options: Options) {
    const { pageSize } = options.pages.pool;
    this.#wake = () => {
      if (!this.#isClosed) options.wake();
    };
    const own = { ...options, wake: this.#wake };
    this.#departures = new PageDepartures({ ...own, pageSize });
    this.#arrivals = new PageArrivals(own);
  }

  /** Prompts whose pages leave, wait for a place, and come. */
  get counts(): { readonly leaving: number; readonly waiting: number; readonly arriving: number } {
    const { waitingCount: waiting, arrivingCount: arriving } = this.#arrivals;
    return { leaving: this.#departures.count, waiting, arriving };
  }

  /** Whether pages are being written, which no other sequence may have meanwhile. */
  get isWriting(): boolean {
    return this.#arrivals.isWriting;
  }

  /** Says that everything scheduled is submitted. */
  rest(): void {
    this.#arrivals.rest();
  }

  /** Takes note of what a step has computed. */
  committed(step: ScheduledStep): void {
    this.#departures.committed(step);
  }

  /** Takes note that no page holds anything any more. */
  lost(): void {
    this.#departures.lost();
  }

  /** Resolves when a sequence whose pages leave may be scheduled; undefined for one whose pages stay. */
  depart(
    sequence: Sequence,
    { routes, isOver }: { readonly routes: PageRoutes; readonly isOver: () => boolean },
  ): Promise<void> | undefined {
    const { pageTaker } = routes;
    return pageTaker && this.#departures.begin(sequence, pageTaker, isOver);
  }

  /**
   * Brings the pages of a sequence; undefined for one that is computed here.
   *
   * @returns Whether it runs now: not where it has left meanwhile.
   */
  arrive(sequence: Sequence, { pageSource }: PageRoutes): Promise<boolean> | undefined {
    return pageSource && this.#arrivals.bring(sequence, pageSource);
  }

  /**
   * A request has ended, or its client has left.
   *
   * @returns Whether its pages are kept for now: they are freed later, without being asked for it.
   */
  leave(sequence: Sequence): boolean {
    if (this.#departures.keeps(sequence)) return true;
    this.#departures.forget(sequence);
    this.#arrivals.leave(sequence);
    // Once the caller has freed its pages: others may wait for them, or for its place.
    this.#wake();
    return this.#arrivals.keeps(sequence);
  }

  /** Ends all that are there, and whatever comes to begin. */
  close(error: Error): void {
    this.#isClosed = true;
    this.#departures.close(error);
    this.#arrivals.close(error);
  }
}

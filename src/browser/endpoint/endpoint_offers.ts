/**
 * The engines that pages offer to a service worker, newest first.
 *
 * @module
 */

export interface Offer {
  readonly id: string;
  /** The page that it came from. */
  readonly clientId: string;
  /** Answers requests with the page's engine. */
  readonly answer: (request: Request) => Response | Promise<Response>;
  /** Whether the engine works, so that the service worker must stay. */
  readonly isBusy: () => boolean;
}

export interface OffersOptions {
  /** Whether the page of an offer is still there; a browser may not say when one goes. */
  readonly isOpen: (clientId: string) => Promise<boolean>;
  /** Asks all pages for their offers. */
  readonly ask: () => void;
  /** Milliseconds that a request waits for an offer. */
  readonly patience: number;
}

export class EndpointOffers {
  readonly #options: OffersOptions;
  #offers: readonly Offer[] = [];
  readonly #waiting = new Set<() => void>();

  constructor(options: OffersOptions) {
    this.#options = options;
  }

  get all(): readonly Offer[] {
    return this.#offers;
  }

  /** An offer takes the place of an older one with its id. */
  add(offer: Offer): void {
    this.#offers = [offer, ...this.#offers.filter(({ id }) => id !== offer.id)];
    for (const wake of [...this.#waiting]) wake();
  }

  /** @param offer The one to remove, or its id. */
  remove(offer: Offer | string): void {
    this.#offers = this.#offers.filter((one) => one !== offer && one.id !== offer);
  }

  /** The newest offer of a page that is still there; undefined when none comes in time. */
  async newest(patience = this.#options.patience): Promise<Offer | undefined> {
    const deadline = performance.now() + patience;
    for (let hasAsked = false; ; hasAsked = true) {
      for (const offer of this.#offers) {
        if (await this.#options.isOpen(offer.clientId)) return offer;
        this.remove(offer);
      }
      const left = deadline - performance.now();
      if (left <= 0) return undefined;
      // Once for all who wait: each answer is one more port to the engine.
      if (!hasAsked && this.#waiting.size === 0) this.#options.ask();
      await this.#added(left);
    }
  }

  /** Resolves with the next offer, and after so many milliseconds without one. */
  #added(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, milliseconds);
      this.#waiting.add(wake);
    });
  }
}

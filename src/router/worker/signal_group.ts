/**
 * One end for many pieces of work: a signal of each, as platforms warn of one that many listen to.
 *
 * @module
 */

export class SignalGroup {
  readonly #live = new Set<AbortController>();
  #ended: { readonly reason: unknown } | undefined;

  get isAborted(): boolean {
    return this.#ended !== undefined;
  }

  /** Ends what runs, and what begins from here on. */
  abort(reason?: unknown): void {
    this.#ended = { reason };
    for (const controller of this.#live) controller.abort(reason);
  }

  /** Does a piece of work, with a signal of its own. */
  async run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    if (this.#ended !== undefined) controller.abort(this.#ended.reason);
    this.#live.add(controller);
    try {
      return await work(controller.signal);
    } finally {
      this.#live.delete(controller);
    }
  }
}

/** Does a piece of work for each item at once, all of which end with a signal. */
export async function forEachOf<I, T>(
  items: readonly I[],
  signal: AbortSignal,
  work: (item: I, signal: AbortSignal) => Promise<T>,
): Promise<readonly T[]> {
  const group = new SignalGroup();
  const onAbort = () => group.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.all(items.map((item) => group.run((own) => work(item, own))));
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

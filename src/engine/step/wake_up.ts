/**
 * A loop that sleeps until another part of the engine has news.
 *
 * @module
 */
export class WakeUp {
  #resolve: (() => void) | undefined;

  /** Resolves at the next `call`. */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  call(): void {
    this.#resolve?.();
    this.#resolve = undefined;
  }
}

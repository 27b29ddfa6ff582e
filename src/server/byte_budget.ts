/**
 * Bytes that answers hold together, so that many of them are refused in place of ending the process.
 *
 * @module
 */
import { CapacityError, type LimitedResource } from "../errors.ts";

export class ByteBudget {
  readonly limit: number;
  readonly #resource: LimitedResource;
  #taken = 0;

  constructor(resource: LimitedResource, limit: number) {
    this.#resource = resource;
    this.limit = limit;
  }

  /** Bytes that are taken now. */
  get taken(): number {
    return this.#taken;
  }

  /**
   * Takes so many bytes.
   *
   * @returns Gives them back; nothing to do the second time.
   * @throws {CapacityError} when fewer are left.
   */
  take(bytes: number): () => void {
    const left = this.limit - this.#taken;
    if (bytes > left) {
      const state = `${bytes} bytes are wanted and ${left} of ${this.limit} are left; an answer that its client has read gives its own back`;
      throw new CapacityError(this.#resource, this.limit, state);
    }
    this.#taken += bytes;
    let held = bytes;
    return () => {
      this.#taken -= held;
      held = 0;
    };
  }
}

/**
 * What a schema says that has no effect, told once for all its places.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";

/** Different warnings; schemas that draw more have the same mistake in all of them. */
export const MAX_WARNINGS = 50;
/** UTF-16 units of a place that are shown. */
const MAX_PLACE = 200;
const WARNING_EFFORT = 1;

interface Warned {
  /** The first of them, as a JSON pointer. */
  readonly path: string;
  places: number;
}

export class SchemaWarnings {
  readonly #warned = new Map<string, Warned>();
  /** Warnings beyond those that are kept. */
  #further = 0;

  /** @param message "Ignored <what>: <why>", without the place, which is added to it. */
  add(message: string, path: string): void {
    spendEffort(WARNING_EFFORT);
    const known = this.#warned.get(message);
    if (known !== undefined) known.places += 1;
    else if (this.#warned.size < MAX_WARNINGS) this.#warned.set(message, { path, places: 1 });
    else this.#further += 1;
  }

  list(): readonly string[] {
    const told = [...this.#warned].map(([message, { path, places }]) => {
      const place = path.length > MAX_PLACE ? `${path.slice(0, MAX_PLACE)}...` : path;
      return places === 1
        ? `${message} (at ${place})`
        : `${message} (at ${place} and ${places - 1} more)`;
    });
    return this.#further === 0 ? told : [...told, `Ignored ${this.#further} more`];
  }
}

/**
 * How a constraint is refused.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";

/** Where in the client's text a problem lies. */
export interface GrammarErrorOptions extends ErrorOptions {
  /** UTF-16 units before the problem in the pattern or grammar text. */
  readonly position?: number | undefined;
  /** JSON pointer into a schema, such as `/properties/age/minimum`; "" is the whole schema. */
  readonly path?: string | undefined;
}

/**
 * A regular expression, EBNF grammar or JSON schema that is malformed, that no text satisfies, that
 * uses something which cannot be enforced exactly, or that is beyond a limit.
 */
export class GrammarError extends InvalidRequestError {
  readonly position: number | undefined;
  readonly path: string | undefined;

  /** @param message "Cannot <verb> <what>: <state>", without the place, which is added to it. */
  constructor(message: string, options: GrammarErrorOptions = {}) {
    const { position, path } = options;
    const place = position !== undefined ? `position ${position}` : path && `at ${path}`;
    super(place ? `${message} (${place})` : message, undefined, options);
    this.position = position;
    this.path = path;
  }
}

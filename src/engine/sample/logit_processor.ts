/**
 * Code of the library's user that changes logits before a token is drawn from them.
 *
 * @module
 */

/** What a processor sees of one sequence before its next token is drawn. */
export interface LogitRow {
  /** Prompt and completion so far. Embeddings have ids beyond the vocabulary. */
  readonly tokens: readonly number[];
  /** One for each token id, to be changed in place; minus infinity forbids a token. */
  readonly logits: Float32Array;
}

/**
 * Changes the logits of one sequence, after penalties, masks and biases and before temperature and
 * filters. They are brought to the host for it and back, once a token: only the sequences of steps
 * that hold such a request wait for that. What it throws ends its own request with that error.
 */
export type LogitProcessor = (row: LogitRow) => void;

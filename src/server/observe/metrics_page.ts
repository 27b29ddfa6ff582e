/**
 * What counts the figures of a server: a part of the platform. Here is only what `/metrics` needs of
 * it.
 *
 * @module
 */

export interface MetricsPage {
  /** Of the text, for the header. */
  readonly contentType: string;
  /** Everything as it is now. */
  text(): Promise<string>;
}

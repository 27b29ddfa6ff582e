/**
 * What records choices of experts for the server: a part of the platform, where there are files.
 *
 * @module
 */

export interface ExpertRecordControl {
  /** @throws {UnsupportedError} when the model has no experts. */
  start(): Promise<void>;
  /** @throws {UnsupportedError} when the model has no experts. */
  stop(): Promise<void>;
  /**
   * Writes down what was recorded since the start or the last of these.
   *
   * @returns The name of the file.
   * @throws {UnsupportedError} when the model has no experts.
   */
  dump(): Promise<string>;
}

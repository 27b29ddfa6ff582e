/**
 * What takes profiles for the server: a part of the platform, where there are files.
 *
 * @module
 */
import type { TraceOptions } from "../../profile.ts";

export interface ProfileRequest extends TraceOptions {
  /** Where in the folder of profiles the file goes, as the client writes it. */
  readonly folder?: string | undefined;
  readonly steps?: number | undefined;
  readonly firstStep?: number | undefined;
}

/** Takes one profile at a time and writes it; only a platform with files has one. */
export interface ProfileControl {
  /**
   * Resolves once steps are measured.
   *
   * @throws {InvalidRequestError} while a profile is taken, and for a folder that is not allowed.
   * @throws {UnsupportedError} when the engine cannot be measured.
   */
  start(request: ProfileRequest): Promise<void>;
  /**
   * Ends the profile.
   *
   * @returns The name of its file.
   * @throws {InvalidRequestError} when none is taken.
   */
  stop(): Promise<string>;
}

/**
 * What an origin of a model gives, whichever kind it is of: the files that it has, and the bytes of one
 * from any position on.
 *
 * @module
 */

import type { FileBody, HubClientOptions, OpenOptions } from "../../checkpoint/hub_client.ts";
import type { StoredOrigin } from "../storage/opfs_manifest.ts";

/** A file of an origin. */
export interface OriginFile {
  readonly name: string;
  readonly size: number;
  /** Hexadecimal: SHA-256 of the bytes, or SHA-1 of a git blob. */
  readonly digest?: string | undefined;
}

export interface OpenedOrigin {
  readonly stored: StoredOrigin;
  /** What the model is called where the caller gives no name. */
  readonly name: string | undefined;
  /** Whether a digest is the origin's own, so that no other bytes are right. */
  readonly hasDigests: boolean;
  list(): Promise<OriginListing>;
  /**
   * Gives the bytes of a file to `use`, once. Nothing is tried again here.
   *
   * @param commit Of the listing that the file is from.
   * @throws {PassingError} when a retry may help.
   */
  open(
    file: OriginFile,
    options: OpenOptions & { readonly commit: string | undefined },
    use: (body: FileBody) => Promise<void>,
  ): Promise<void>;
}

export interface OriginListing {
  readonly commit?: string;
  /** Those that make the model, and no others. */
  readonly files: readonly OriginFile[];
}

export type OriginOptions = Pick<
  HubClientOptions,
  "headers" | "signal" | "idleTimeout" | "policy" | "onRetry"
>;

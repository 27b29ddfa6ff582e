/**
 * Where a model is, as plain data that a page can send to a worker, and how it is opened there.
 *
 * @module
 */
import type { WeightSource } from "../../checkpoint/source.ts";
import { InvalidRequestError } from "../../errors.ts";
import { filesSource } from "../download/file_source.ts";
import { urlSource } from "../download/url_source.ts";
import { openModelStore } from "../storage/storage.ts";

export type ModelAddress =
  /** A folder on an HTTP server; a relative address counts from the page. */
  | {
      readonly kind: "url";
      readonly url: string;
      /** Sent with every request, such as `authorization`. */
      readonly headers?: Readonly<Record<string, string>> | undefined;
    }
  /** A model in this browser's storage, by its name there. */
  | { readonly kind: "store"; readonly name: string }
  /** Files of this machine that a person has picked or dropped. */
  | { readonly kind: "files"; readonly files: readonly File[] };

/**
 * Opens the model at the address. Works on a page and in a worker.
 *
 * @throws {CheckpointError | StorageError} when there is none, or it cannot be read.
 * @throws {InvalidRequestError} when the address is of another kind.
 */
export async function openModel(address: ModelAddress): Promise<WeightSource> {
  switch (address.kind) {
    case "url":
      return urlSource(address.url, { ...(address.headers && { headers: address.headers }) });
    case "store":
      return (await openModelStore()).open(address.name);
    case "files":
      return filesSource(address.files);
    default:
      throw unknownKind(address satisfies never);
  }
}

function unknownKind({ kind }: ModelAddress): InvalidRequestError {
  return new InvalidRequestError(
    `Cannot open a model of address ${kind}: there is no such kind of address`,
    "kind",
  );
}

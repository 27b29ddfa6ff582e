/**
 * Where a model for the browser's storage comes from: any HTTP server, a model hub, a picked folder,
 * picked files. Each says which files there are, and gives the bytes of one from any position on.
 *
 * @module
 */

import {
  type FileBody,
  HubClient,
  type HubFile,
  type OpenOptions,
  PUBLIC_HUB,
} from "../../checkpoint/hub_client.ts";
import { wantedFiles } from "../../checkpoint/model_files.ts";
import { DEFAULT_REVISION, isRevision, parseModelId } from "../../checkpoint/model_id.ts";
import { InvalidRequestError } from "../../errors.ts";
import { DownloadError, PassingError } from "../../http/retries.ts";
import type { StoredOrigin } from "../storage/opfs_manifest.ts";
import { UrlFolder } from "./download_url.ts";
import { filesOfFolder, topFiles } from "./file_source.ts";
import type { OpenedOrigin, OriginFile, OriginListing, OriginOptions } from "./opened_origin.ts";
import { folderUrl } from "./url_source.ts";

export type ModelOrigin =
  /** A folder on any HTTP server. */
  | { readonly kind: "url"; readonly url: string }
  | {
      readonly kind: "hub";
      /** As NAME or ORG/NAME, with @REVISION behind it where one is meant. */
      readonly id: string;
      /** Branch, tag or commit. Default main. */
      readonly revision?: string | undefined;
      /** Default https://huggingface.co. */
      readonly endpoint?: string | undefined;
    }
  /** A picked or dropped folder. */
  | { readonly kind: "folder"; readonly handle: FileSystemDirectoryHandle }
  | { readonly kind: "files"; readonly files: readonly File[] };

/** @throws {InvalidRequestError} when the origin cannot be meant. */
export async function openOrigin(
  origin: ModelOrigin,
  options: OriginOptions,
): Promise<OpenedOrigin> {
  switch (origin.kind) {
    case "url":
      return urlOrigin(origin.url, options);
    case "hub":
      return new HubOrigin(origin, options);
    case "folder": {
      const stored = { kind: "folder", folder: origin.handle.name } as const;
      return filesOrigin(await filesOfFolder(origin.handle), stored, origin.handle.name);
    }
    case "files": {
      const files = topFiles(origin.files);
      const name = files[0]?.webkitRelativePath?.split("/").at(-2);
      return filesOrigin(files, { kind: "files" }, name);
    }
    default:
      throw unknownKind(origin satisfies never);
  }
}

function unknownKind({ kind }: ModelOrigin): InvalidRequestError {
  return new InvalidRequestError(
    `Cannot open a model of origin ${kind}: there is no such kind of origin`,
    "kind",
  );
}

function urlOrigin(address: string, options: OriginOptions): OpenedOrigin {
  if (!URL.canParse(address, globalThis.location?.href)) {
    throw new InvalidRequestError(`Cannot use the address "${address}": it is none`, "url");
  }
  const url = folderUrl(address);
  const folder = new UrlFolder(url, options);
  return {
    stored: { kind: "url", url: url.href },
    name: `${url.host}${url.pathname}`.replace(/\/+$/, ""),
    hasDigests: false,
    list: async () => ({ files: await folder.list() }),
    open: (file, wanted, use) => folder.open(file, wanted, use),
  };
}

class HubOrigin implements OpenedOrigin {
  readonly stored: StoredOrigin;
  readonly name: string;
  readonly hasDigests = true;
  readonly #id: string;
  readonly #revision: string;
  readonly #client: HubClient;
  /** The list of shards, which is wanted before the download and in it. */
  readonly #index = new Map<string, Uint8Array>();

  constructor(origin: ModelOrigin & { readonly kind: "hub" }, options: OriginOptions) {
    const parsed = parseModelId(origin.id);
    const revision = origin.revision ?? parsed?.revision ?? DEFAULT_REVISION;
    if (parsed === undefined || !isRevision(revision)) {
      const meant = origin.revision === undefined ? origin.id : `${origin.id}@${revision}`;
      throw new InvalidRequestError(`Cannot use the model id "${meant}": it is none`, "id");
    }
    const endpoint = (origin.endpoint ?? PUBLIC_HUB).replace(/\/+$/, "");
    const { id } = parsed;
    this.stored = { kind: "hub", id, revision, endpoint };
    this.name = revision === DEFAULT_REVISION ? id : `${id}@${revision}`;
    this.#id = id;
    this.#revision = revision;
    const tokenPlace = "headers.authorization";
    this.#client = new HubClient({ ...options, endpoint, tokenPlace, onPage: true });
  }

  async list(): Promise<OriginListing> {
    const listing = await this.#client.list(this.#id, this.#revision);
    const wanted = await wantedFiles(this.#id, listing.files, async (index) => {
      const file = await this.#client.describe(listing, index);
      const bytes = await this.#client.readWhole(listing, file);
      this.#index.set(file.name, bytes);
      return new TextDecoder().decode(bytes);
    });
    const files: OriginFile[] = [];
    for (const file of wanted) files.push(await this.#client.describe(listing, file));
    return { commit: listing.commit, files };
  }

  async open(
    file: OriginFile,
    { commit, ...wanted }: OpenOptions & { readonly commit: string | undefined },
    use: (body: FileBody) => Promise<void>,
  ): Promise<void> {
    const { size } = file;
    const bytes = this.#index.get(file.name);
    if (bytes?.length === size && wanted.position === 0) {
      this.#index.delete(file.name);
      const chunks = async function* () {
        yield bytes;
      };
      return use({ start: 0, version: undefined, size, chunks });
    }
    // A listing of a hub has a commit, and digests of all files.
    return this.#client.open({ id: this.#id, commit: commit! }, file as HubFile, wanted, use);
  }
}

function filesOrigin(
  files: readonly File[],
  stored: StoredOrigin,
  name: string | undefined,
): OpenedOrigin {
  const model = name ?? "the picked files";
  return {
    stored,
    name,
    hasDigests: false,
    list: async () => ({ files: await wantedFiles(model, files, (index) => index.text()) }),
    async open({ name: wanted }, { position }, use) {
      const file = files.find((picked) => picked.name === wanted);
      if (file === undefined) throw new DownloadError(`${wanted} of ${model}`, "it is not there");
      const { size } = file;
      const start = position <= size ? position : 0;
      const chunks = () => chunksOf(file.slice(start));
      await use({ start, version: String(file.lastModified), size, chunks });
    },
  };
}

async function* chunksOf(blob: Blob): AsyncGenerator<Uint8Array> {
  const reader = blob.stream().getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: Error) => {
        throw new PassingError(`the file cannot be read (${cause.message})`, undefined, { cause });
      });
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

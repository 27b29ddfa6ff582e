/**
 * What a model hub has: the files of a model at one commit, and their bytes from any position on.
 *
 * @module
 */

import { type FileReply, FileRequests, type FileRequestsOptions } from "../http/file_requests.ts";
import { DownloadError, PassingError, type RetryPolicy, withRetries } from "../http/retries.ts";
import { isJsonObject } from "./json_file.ts";
import { isCommit } from "./model_id.ts";

/** A file as the hub lists it. A file without a size or a digest has to be asked for. */
export interface ListedFile {
  readonly name: string;
  readonly size: number | undefined;
  /** Hexadecimal: SHA-256 of the bytes, or SHA-1 of a git blob. */
  readonly digest: string | undefined;
}

export type HubFile = { readonly [K in keyof ListedFile]-?: NonNullable<ListedFile[K]> };

export interface Listing {
  readonly id: string;
  readonly commit: string;
  /** Those at the top of the repository: models have no folders. */
  readonly files: readonly ListedFile[];
}

export interface HubClientOptions
  extends Pick<FileRequestsOptions, "signal" | "idleTimeout" | "onPage"> {
  /** Address without a slash at its end. Default the public hub's. */
  readonly endpoint?: string | undefined;
  /** For the hub alone, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Where an access token is taken from, for messages. */
  readonly tokenPlace: string;
  readonly policy: RetryPolicy;
  readonly onRetry?: (sentence: string) => void;
}

export interface OpenOptions {
  /** First byte wanted. */
  readonly position: number;
  /** The bytes from `position` on are wanted of this version only, the whole of another. */
  readonly version: string | undefined;
}

export interface FileBody {
  /** Where the body begins: what was asked for, or 0. */
  readonly start: number;
  /** What the server calls this version of the file, where it does. */
  readonly version: string | undefined;
  /** Bytes of the whole file. */
  readonly size: number;
  chunks(): AsyncGenerator<Uint8Array>;
}

export const PUBLIC_HUB = "https://huggingface.co";

/** Room for the list of files of any repository. */
export const MOST_LISTING_BYTES = 64 * 2 ** 20;

export class HubClient {
  readonly #http: FileRequests;
  readonly #options: HubClientOptions;

  constructor(options: HubClientOptions) {
    const {
      endpoint = PUBLIC_HUB,
      headers = {},
      tokenPlace,
      signal,
      idleTimeout,
      onPage,
    } = options;
    const hasToken = new Headers(headers).has("authorization");
    this.#http = new FileRequests({
      endpoint,
      headers,
      signal,
      idleTimeout,
      ...(onPage !== undefined && { onPage }),
      explain: (status, answer) => explain(status, answer, { hasToken, tokenPlace }),
    });
    this.#options = options;
  }

  /**
   * The files of a model at a revision.
   *
   * @throws {DownloadError} when the hub has no such model, gives no access, or cannot be reached.
   */
  async list(id: string, revision: string): Promise<Listing> {
    const subject = `${id} (revision ${revision})`;
    const path = `/api/models/${id}/revision/${encodeURIComponent(revision)}?blobs=true`;
    const value = await this.#retried(subject, () =>
      this.#http.exchange({ subject, path, expected: [200] }, async (reply) => {
        const text = new TextDecoder().decode(await whole(reply, subject));
        return parseListing(subject, text);
      }),
    );
    const { sha, siblings } = value;
    if (typeof sha !== "string" || !isCommit(sha) || !Array.isArray(siblings)) {
      const problem = `${this.#http.endpoint} gives no list of files: it is not a model hub`;
      throw new DownloadError(subject, problem);
    }
    const files = siblings.map(readSibling).filter((file) => file !== undefined);
    return { id, commit: sha, files };
  }

  /**
   * Asks for what the list does not tell.
   *
   * @throws {DownloadError} when the hub does not tell it either: nothing comes in unchecked.
   */
  async describe({ id, commit }: Listing, file: ListedFile): Promise<HubFile> {
    const { name, size, digest } = file;
    if (size !== undefined && digest !== undefined) return { name, size, digest };
    const subject = `${name} of ${id}`;
    const path = resolvePath(id, commit, name);
    const request = { subject, path, method: "HEAD", expected: [200] } as const;
    return this.#retried(subject, () =>
      this.#http.exchange(request, async (reply) => {
        const ownLength = reply.status === 200 ? reply.headers.get("content-length") : null;
        const length = reply.ownHeader("x-linked-size") ?? ownLength;
        const etag = reply.ownHeader("x-linked-etag") ?? reply.ownHeader("etag");
        const found = { name, size: size ?? Number(length ?? Number.NaN), digest: plainTag(etag) };
        if (found.digest !== undefined && isDigest(found.digest) && isSize(found.size)) {
          return { ...found, digest: found.digest };
        }
        throw new DownloadError(subject, "the server gives no size and checksum for it");
      }),
    );
  }

  /**
   * Gives the bytes of a file to `use`, once. Nothing is tried again here.
   *
   * @throws {PassingError} when a retry may help.
   * @throws {DownloadError} when the hub's file is another than `file`.
   */
  async open(
    { id, commit }: Pick<Listing, "id" | "commit">,
    file: HubFile,
    { position, version }: OpenOptions,
    use: (body: FileBody) => Promise<void>,
  ): Promise<void> {
    const subject = `${file.name} of ${id}`;
    const { onPage = false } = this.#options;
    const request = {
      subject,
      path: resolvePath(id, commit, file.name),
      expected: [200, 206, 416],
      headers: {
        ...((position > 0 || onPage) && { range: `bytes=${position}-` }),
        // Of another origin a page may not ask this, and what comes is checked as well.
        ...(position > 0 && version !== undefined && !onPage && { "if-range": version }),
      },
    };
    await this.#http.exchange(request, async (reply) => {
      checkIdentity(subject, reply, commit, file);
      const tag = reply.headers.get("etag");
      await use({
        start: bodyStart(reply, position, file.size),
        // If-Range takes no weak tags.
        version: tag?.startsWith('"') ? tag : undefined,
        size: file.size,
        chunks: () => (reply.status === 416 ? nothing() : reply.chunks()),
      });
    });
  }

  /** The bytes of a small file. */
  async readWhole(listing: Pick<Listing, "id" | "commit">, file: HubFile): Promise<Uint8Array> {
    const subject = `${file.name} of ${listing.id}`;
    return this.#retried(subject, async () => {
      const pieces: Uint8Array[] = [];
      const wanted = { position: 0, version: undefined };
      await this.open(listing, file, wanted, async (body) => {
        for await (const piece of body.chunks()) pieces.push(piece);
      });
      const bytes = joinBytes(pieces);
      if (bytes.length === file.size) return bytes;
      throw new PassingError(`${bytes.length} of ${file.size} bytes came`);
    });
  }

  #retried<T>(subject: string, work: () => Promise<T>): Promise<T> {
    const { policy, signal, onRetry } = this.#options;
    return withRetries(work, { subject, policy, signal, ...(onRetry && { onRetry }) });
  }
}

function resolvePath(id: string, commit: string, file: string): string {
  return `/${id}/resolve/${commit}/${encodeURIComponent(file)}`;
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

async function whole(reply: FileReply, subject: string): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of reply.chunks()) {
    pieces.push(piece);
    length += piece.length;
    if (length > MOST_LISTING_BYTES) throw new DownloadError(subject, "its list never ends");
  }
  return joinBytes(pieces);
}

function joinBytes(pieces: readonly Uint8Array[]): Uint8Array {
  const length = pieces.reduce((total, piece) => total + piece.length, 0);
  const joined = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}

function parseListing(subject: string, text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new PassingError("the list of files is not JSON", undefined, { cause });
  }
  if (isJsonObject(value)) return value;
  throw new DownloadError(subject, "the list of files is not an object");
}

/** Undefined for a file in a folder, whose name could also lead out of the cache. */
function readSibling(value: unknown): ListedFile | undefined {
  if (!isJsonObject(value) || typeof value.rfilename !== "string") return undefined;
  const name = value.rfilename;
  if (/[/\\:\0]|^\.{0,2}$/.test(name)) return undefined;
  const lfs = isJsonObject(value.lfs) ? value.lfs : undefined;
  // The git blob of a large file is only a pointer to it.
  const digest = plainTag(lfs === undefined ? value.blobId : lfs.sha256);
  const size = lfs?.size ?? value.size;
  return {
    name,
    size: isSize(size) ? size : undefined,
    digest: digest !== undefined && isDigest(digest) ? digest : undefined,
  };
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isDigest(text: string): boolean {
  return /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
}

/** An ETag without its quotes and its mark of weakness. */
function plainTag(value: unknown): string | undefined {
  return typeof value === "string" ? value.replace(/^W\//, "").replace(/^"|"$/g, "") : undefined;
}

/** The hub must still mean the file that it listed. */
function checkIdentity(subject: string, reply: FileReply, commit: string, file: HubFile): void {
  const changed = (what: string, now: string, before: string | number) =>
    new DownloadError(subject, `it is not the file that was listed: ${what} ${now}, not ${before}`);
  const repoCommit = reply.ownHeader("x-repo-commit");
  if (repoCommit !== null && repoCommit !== commit) throw changed("commit", repoCommit, commit);
  // Other servers' tags may be anything.
  const ownTag = repoCommit === null ? null : reply.ownHeader("etag");
  const tag = plainTag(reply.ownHeader("x-linked-etag") ?? ownTag);
  if (tag !== undefined && isDigest(tag) && tag !== file.digest) {
    // A tag of the other kind says nothing about the bytes.
    if (tag.length === file.digest.length) throw changed("ETag", tag, file.digest);
  }
  const size = reply.ownHeader("x-linked-size");
  if (size !== null && Number(size) !== file.size) throw changed("size", size, file.size);
}

/** Where the body begins, by what the server says, which has to fit what was asked for. */
function bodyStart({ status, headers }: FileReply, position: number, size: number): number {
  const length = headers.get("content-length");
  // Nothing that is here fits the server's file.
  if (status === 416) return 0;
  if (status === 200) {
    if (length === null || Number(length) === size) return 0;
    throw new PassingError(`the server sends ${length} bytes instead of ${size}`);
  }
  const range = headers.get("content-range") ?? "no range";
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(range);
  const fits =
    match !== null &&
    Number(match[1]) === position &&
    Number(match[2]) === size - 1 &&
    (match[3] === "*" || Number(match[3]) === size) &&
    (length === null || Number(length) === size - position);
  if (fits) return position;
  throw new PassingError(`the server sends ${range} where bytes from ${position} are wanted`);
}

interface Token {
  readonly hasToken: boolean;
  readonly tokenPlace: string;
}

function explain(
  status: number,
  headers: Headers,
  { hasToken, tokenPlace: place }: Token,
): string | undefined {
  switch (status) {
    case 401:
      return hasToken
        ? "the token is not valid, or may not read it"
        : `it does not exist, or is private or gated: ${place} has to hold a token that may read it`;
    case 403:
      return hasToken
        ? "the token may not read it: ask for access on its page"
        : `it is gated: ask for access on its page, and put a token into ${place}`;
    case 404:
      return notFound(headers.get("x-error-code"));
    default:
      return undefined;
  }
}

function notFound(code: string | null): string {
  const known: Readonly<Record<string, string>> = {
    RepoNotFound: "there is no such model, or it is private",
    RevisionNotFound: "there is no such revision",
    EntryNotFound: "there is no such file",
  };
  return known[code ?? ""] ?? "there is no such model, revision or file";
}

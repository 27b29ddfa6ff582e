/**
 * One file from a model hub into a blob of the cache: begun where an earlier try has ended, checked
 * on the disk, and given its name only then.
 *
 * The unfinished file always holds the first bytes of the file in order, so that any tool can go on
 * with it.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { type FileHandle, mkdir, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import type { FileBody, HubClient, HubFile, Listing } from "../../checkpoint/hub_client.ts";
import { DownloadError, PassingError, type RetryPolicy, withRetries } from "../../http/retries.ts";
import { fileSize } from "./hub_cache.ts";

export interface FileTransferOptions {
  readonly client: HubClient;
  readonly listing: Pick<Listing, "id" | "commit">;
  readonly file: HubFile;
  /** Where the complete file goes. */
  readonly path: string;
  readonly partialPath: string;
  readonly policy: RetryPolicy;
  readonly signal: AbortSignal;
  /** Told how many bytes of the file are here, which may become fewer again. */
  readonly onPosition: (bytes: number) => void;
  readonly onRetry?: (sentence: string) => void;
}

const READ_BYTES = 2 ** 20;

/** Wrong bytes may be a fault of the way; the same wrong bytes again are the server's. */
const MOST_MISMATCHES = 2;

/**
 * @throws {DownloadError} when the file cannot be had. What has come stays for the next try, unless
 * it was wrong.
 */
export async function transferFile(options: FileTransferOptions): Promise<void> {
  await new FileTransfer(options).run();
}

class FileTransfer {
  readonly #options: FileTransferOptions;
  readonly #subject: string;
  /** Bytes at the start of the unfinished file. */
  #position = 0;
  #mismatches = 0;
  /** What the server called the file when the bytes came that are here. */
  #version: string | undefined;

  constructor(options: FileTransferOptions) {
    this.#options = options;
    this.#subject = `${options.file.name} of ${options.listing.id}`;
  }

  async run(): Promise<void> {
    const { policy, signal, onRetry, partialPath } = this.#options;
    try {
      await mkdir(dirname(partialPath), { recursive: true });
      await withRetries(() => this.#attempt(), {
        subject: this.#subject,
        policy,
        signal,
        position: () => this.#position,
        ...(onRetry && { onRetry }),
      });
    } catch (error) {
      if (error instanceof DownloadError || signal.aborted) throw error;
      // The disk's error names a blob, from which no reader can tell the file.
      throw new DownloadError(this.#subject, (error as Error).message, { cause: error });
    }
  }

  async #attempt(): Promise<void> {
    const { file, path, partialPath } = this.#options;
    const handle = await openPartial(partialPath);
    try {
      this.#moveTo((await handle.stat()).size);
      if (this.#position > file.size) await this.#restart(handle);
      if (this.#position < file.size) await this.#fetch(handle);
      await handle.sync();
      await this.#verify(handle);
    } finally {
      await handle.close();
    }
    await rename(partialPath, path).catch(async (error: NodeJS.ErrnoException) => {
      // Another program that uses this cache was faster.
      if ((await fileSize(path)) !== file.size) throw error;
    });
  }

  async #fetch(handle: FileHandle): Promise<void> {
    const { client, listing, file } = this.#options;
    const wanted = { position: this.#position, version: this.#version };
    await client.open(listing, file, wanted, async (body) => {
      if (body.start !== this.#position) {
        await this.#restart(handle);
      } else if (this.#position > 0 && this.#version !== undefined) {
        if (body.version !== this.#version) await this.#refuseVersion(handle, body.version);
      }
      this.#version = body.version;
      await this.#write(handle, body);
    });
    if (this.#position < file.size) {
      throw new PassingError(`the transfer broke off at byte ${this.#position} of ${file.size}`);
    }
  }

  async #write(handle: FileHandle, body: FileBody): Promise<void> {
    const { size } = this.#options.file;
    for await (const bytes of body.chunks()) {
      if (this.#position + bytes.length > size) {
        await this.#restart(handle);
        throw new PassingError(`the server sends more than the ${size} bytes of the file`);
      }
      for (let done = 0; done < bytes.length; ) {
        const rest = bytes.length - done;
        done += (await handle.write(bytes, done, rest, this.#position + done)).bytesWritten;
      }
      this.#moveTo(this.#position + bytes.length);
    }
  }

  async #refuseVersion(handle: FileHandle, version: string | undefined): Promise<never> {
    const before = this.#version;
    await this.#restart(handle);
    throw new PassingError(`the file changed meanwhile: its ETag is ${version}, not ${before}`);
  }

  /** Reads the file back from the disk: what becomes visible is what was checked. */
  async #verify(handle: FileHandle): Promise<void> {
    const { file, signal } = this.#options;
    const isGitBlob = file.digest.length === 40;
    const hash = createHash(isGitBlob ? "sha1" : "sha256");
    if (isGitBlob) hash.update(`blob ${file.size}\0`);
    const buffer = new Uint8Array(READ_BYTES);
    let length = 0;
    for (;;) {
      signal.throwIfAborted();
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, length);
      if (bytesRead === 0) break;
      hash.update(buffer.subarray(0, bytesRead));
      length += bytesRead;
    }
    const found = hash.digest("hex");
    if (found === file.digest && length === file.size) return;
    await this.#restart(handle);
    this.#mismatches += 1;
    const kind = isGitBlob ? "git SHA-1" : "SHA-256";
    const problem = `its ${kind} is ${found} instead of ${file.digest}, what came was deleted`;
    if (this.#mismatches < MOST_MISMATCHES) throw new PassingError(problem);
    throw new DownloadError(this.#subject, problem);
  }

  async #restart(handle: FileHandle): Promise<void> {
    await handle.truncate(0);
    this.#version = undefined;
    this.#moveTo(0);
  }

  #moveTo(position: number): void {
    this.#position = position;
    this.#options.onPosition(Math.min(position, this.#options.file.size));
  }
}

/** Opened for reading and writing at any place, and created when it is missing. */
async function openPartial(path: string): Promise<FileHandle> {
  return open(path, "r+").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return open(path, "w+");
    throw error;
  });
}

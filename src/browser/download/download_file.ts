/**
 * One file into the browser's storage: begun where an earlier try has ended, checked as it comes.
 *
 * Its checksum cannot be kept over a reload, so that what is here already is read once more then.
 *
 * @module
 */

import type { FileBody } from "../../checkpoint/hub_client.ts";
import { DownloadError, PassingError, type RetryPolicy, withRetries } from "../../http/retries.ts";
import type { ManifestFile } from "../storage/opfs_manifest.ts";
import type { PartedFile } from "../storage/opfs_parts.ts";
import { digestFiles, FileDigest } from "./download_digest.ts";
import type { OpenedOrigin } from "./opened_origin.ts";

export interface FileDownloadOptions {
  readonly origin: OpenedOrigin;
  readonly commit: string | undefined;
  readonly file: ManifestFile;
  readonly stored: PartedFile;
  /** The file and its model, for messages. */
  readonly subject: string;
  readonly policy: RetryPolicy;
  readonly signal: AbortSignal;
  /** Keeps what is known of the file now, before more of its bytes are. */
  readonly onChange: (file: ManifestFile) => Promise<void>;
  /** Told how many bytes are here and hashed, which may become fewer again. */
  readonly onPosition: (bytes: number, phase: "checking" | "downloading") => void;
  readonly onRetry: (sentence: string) => void;
}

/** Wrong bytes may be a fault of the way; the same wrong bytes again are the origin's. */
const MOST_MISMATCHES = 2;

/**
 * @throws {DownloadError} when the file cannot be had. What has come stays for the next try, unless
 * it was wrong.
 */
export async function downloadFile(options: FileDownloadOptions): Promise<void> {
  await new FileDownload(options).run();
}

class FileDownload {
  readonly #options: FileDownloadOptions;
  #file: ManifestFile;
  #digest: FileDigest;
  /** Bytes at the start of the file that are here. */
  #position = 0;
  #mismatches = 0;

  constructor(options: FileDownloadOptions) {
    this.#options = options;
    this.#file = options.file;
    this.#digest = this.#newDigest();
  }

  async run(): Promise<void> {
    const { subject, policy, signal, onRetry } = this.#options;
    const position = () => this.#position;
    const options = { subject, policy, signal, onRetry, position };
    await withRetries(() => this.#attempt(), options);
  }

  async #attempt(): Promise<void> {
    this.#position = await this.#options.stored.length();
    if (this.#position > this.#file.size) await this.#restart();
    if (this.#digest.length !== this.#position) await this.#digestStored();
    if (this.#position < this.#file.size) await this.#fetch();
    await this.#finish();
  }

  /** A failed write, or an earlier page, has left other bytes than were hashed here. */
  async #digestStored(): Promise<void> {
    const { stored, signal, onPosition } = this.#options;
    this.#digest = this.#newDigest();
    const onLength = (bytes: number) => onPosition(bytes, "checking");
    await digestFiles(this.#digest, await stored.parts(), { signal, onLength });
  }

  async #fetch(): Promise<void> {
    const { origin, commit } = this.#options;
    const { version } = this.#file;
    const wanted = { position: this.#position, version, commit };
    await origin.open(this.#file, wanted, async (body) => {
      await this.#accept(body);
      await this.#append(body);
    });
    if (this.#position === this.#file.size) return;
    const { size } = this.#file;
    throw new PassingError(`the transfer broke off at byte ${this.#position} of ${size}`);
  }

  /** What comes has to go on with what is here. */
  async #accept({ start, size, version }: FileBody): Promise<void> {
    const before = this.#file;
    const isOther = version !== undefined && version !== before.version;
    const hasChanged = size !== before.size || (isOther && before.version !== undefined);
    if (start !== this.#position || hasChanged) await this.#restart();
    if (hasChanged || isOther) {
      const digest = hasChanged && !this.#options.origin.hasDigests ? undefined : before.digest;
      this.#file = { ...before, size, version, digest };
      // A git blob's begins with its size.
      if (this.#position === 0) this.#digest = this.#newDigest();
      await this.#options.onChange(this.#file);
    }
    if (start !== this.#position) throw new PassingError("the file has changed meanwhile");
  }

  async #append(body: FileBody): Promise<void> {
    const { size } = this.#file;
    const appender = this.#options.stored.appender(this.#position);
    let isOverlong = false;
    try {
      for await (const bytes of body.chunks()) {
        this.#options.signal.throwIfAborted();
        isOverlong = this.#position + bytes.length > size;
        if (isOverlong) break;
        this.#digest.update(bytes);
        await appender.write(bytes);
        this.#moveTo(this.#position + bytes.length);
      }
    } catch (error) {
      // Of two failures the first says more.
      await appender.close().catch(() => {});
      throw error;
    }
    await appender.close();
    if (!isOverlong) return;
    await this.#restart();
    throw new PassingError(`more than the ${size} bytes of the file came`);
  }

  async #finish(): Promise<void> {
    const file = this.#file;
    const { kind } = this.#digest;
    const digest = this.#digest.finish();
    if (file.digest === undefined || file.digest === digest) {
      this.#file = { ...file, digest, isComplete: true };
      await this.#options.onChange(this.#file);
      this.#moveTo(file.size);
      return;
    }
    await this.#restart();
    this.#mismatches += 1;
    const problem = `its ${kind} is ${digest} instead of ${file.digest}, what came was deleted`;
    if (this.#mismatches < MOST_MISMATCHES) throw new PassingError(problem);
    throw new DownloadError(this.#options.subject, problem);
  }

  async #restart(): Promise<void> {
    await this.#options.stored.remove();
    this.#digest = this.#newDigest();
    this.#moveTo(0);
  }

  #newDigest(): FileDigest {
    return new FileDigest(this.#file.size, this.#file.digest);
  }

  #moveTo(position: number): void {
    this.#position = position;
    this.#options.onPosition(position, "downloading");
  }
}

/**
 * The folder in which tools for model hubs keep what they have downloaded, in their common layout:
 *
 *     models--ORG--NAME/refs/REVISION             text: the commit that the revision stands for
 *     models--ORG--NAME/blobs/ETAG                the bytes of a file
 *     models--ORG--NAME/blobs/ETAG.incomplete     its first bytes, while it is downloaded
 *     models--ORG--NAME/snapshots/COMMIT/FILE     link to ../../blobs/ETAG, or the file itself
 *
 * A file becomes visible in a snapshot at once, when it is complete.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import {
  copyFile,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { isCommit } from "../../checkpoint/model_id.ts";

export interface CachedFile {
  readonly commit: string;
  /** A plain file name. */
  readonly file: string;
  /** Name of the blob. */
  readonly etag: string;
}

/** Makes a link, as `symlink` of Node does. */
export type MakeLink = (target: string, path: string) => Promise<void>;

const PARTIAL_SUFFIX = ".incomplete";

/** What making a link fails with where the file system or the user's rights do not allow links. */
const NO_LINKS = ["EPERM", "EACCES", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL", "UNKNOWN"];

/** One model's part of the cache. Nothing is created before it is written to. */
export class CachedModel {
  readonly folder: string;
  /** Taken by a download, so that there is one at a time. */
  readonly lockPath: string;
  readonly #makeLink: MakeLink;

  constructor(cacheFolder: string, id: string, makeLink: MakeLink = symlink) {
    const name = `models--${id.replace("/", "--")}`;
    this.folder = join(cacheFolder, name);
    this.lockPath = join(cacheFolder, ".locks", name, "wisp.lock");
    this.#makeLink = makeLink;
  }

  blobPath(etag: string): string {
    return join(this.folder, "blobs", etag);
  }

  partialPath(etag: string): string {
    return this.blobPath(etag) + PARTIAL_SUFFIX;
  }

  snapshotPath(commit: string): string {
    return join(this.folder, "snapshots", commit);
  }

  /** The commit that `revision` stands for here; undefined when it was never downloaded. */
  async commitOf(revision: string): Promise<string | undefined> {
    const path = join(this.folder, "refs", revision);
    const text = await readFile(path, "utf8").catch(() => undefined);
    const commit = text?.trim();
    if (commit !== undefined && isCommit(commit)) return commit;
    if (!isCommit(revision)) return undefined;
    const found = await stat(this.snapshotPath(revision)).catch(() => undefined);
    return found?.isDirectory() ? revision : undefined;
  }

  /** Lets `revision` stand for `commit` from now on. A commit stands for itself. */
  async writeRef(revision: string, commit: string): Promise<void> {
    if (revision === commit) return;
    const path = join(this.folder, "refs", revision);
    await mkdir(dirname(path), { recursive: true });
    await this.#replace(path, (temporary) => writeFile(temporary, commit));
  }

  /** Bytes of a file of a snapshot; undefined when it is missing, or a link to nothing. */
  async sizeOf(commit: string, file: string): Promise<number | undefined> {
    return fileSize(join(this.snapshotPath(commit), file));
  }

  /** Bytes that an unfinished download of the blob has left. */
  async partialSize(etag: string): Promise<number> {
    return (await fileSize(this.partialPath(etag))) ?? 0;
  }

  /** How many files are half downloaded. */
  async countPartials(): Promise<number> {
    const names = await readdir(join(this.folder, "blobs")).catch(() => []);
    return names.filter((name) => name.endsWith(PARTIAL_SUFFIX)).length;
  }

  /**
   * Shows a complete blob in its snapshot.
   *
   * @param isNew Whether no other snapshot has the blob. Where links cannot be made it is moved
   * then, and copied otherwise.
   */
  async publish({ commit, file, etag }: CachedFile, isNew: boolean): Promise<void> {
    const path = join(this.snapshotPath(commit), file);
    await mkdir(dirname(path), { recursive: true });
    try {
      const target = join("..", "..", "blobs", etag);
      await this.#replace(path, (temporary) => this.#makeLink(target, temporary));
    } catch (error) {
      if (!NO_LINKS.includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
      const blob = this.blobPath(etag);
      await this.#replace(path, (temporary) =>
        isNew ? rename(blob, temporary) : copyFile(blob, temporary),
      );
    }
  }

  /** What is at `path` changes at once, from what there was to what `make` makes. */
  async #replace(path: string, make: (temporary: string) => Promise<void>): Promise<void> {
    const temporary = join(this.folder, `.${randomUUID()}`);
    try {
      await make(temporary);
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }
}

/** Bytes of a file; undefined when there is none. */
export async function fileSize(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() ? found.size : undefined;
}

/**
 * The browser's file storage, in memory: folders and files that are written in place or through a
 * copy, with a limit on their bytes, and pictures of how it looked at any moment.
 *
 * @module
 */
import type {
  StorageFile,
  StorageFolder,
  SyncAccess,
  WritableCopy,
} from "../../../src/browser/storage/opfs_file.ts";

export interface MemoryStorageOptions {
  /** How browsers write on a page, and in a worker. */
  readonly writes: "through a copy" | "in place";
  /** Told after each change that a page closed at this moment would leave behind. */
  readonly onChange?: () => void;
}

/** What all folders of a storage share. */
interface Shared extends MemoryStorageOptions {
  quota: number;
}

const notFound = (name: string) => new DOMException(`${name} is not there`, "NotFoundError");

export class MemoryFolder implements StorageFolder {
  readonly folders = new Map<string, MemoryFolder>();
  readonly files = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly #shared: Shared;
  readonly #root: MemoryFolder;

  constructor(options: MemoryStorageOptions, root?: MemoryFolder) {
    this.#shared =
      root === undefined ? { ...options, quota: Number.POSITIVE_INFINITY } : root.#shared;
    this.#root = root ?? this;
  }

  /** Bytes in here and below. */
  get used(): number {
    const own = [...this.files.values()].reduce((sum, bytes) => sum + bytes.length, 0);
    return [...this.folders.values()].reduce((sum, folder) => sum + folder.used, own);
  }

  get quota(): number {
    return this.#shared.quota;
  }

  set quota(bytes: number) {
    this.#shared.quota = bytes;
  }

  /** A storage with the same contents. */
  copy(options: MemoryStorageOptions): MemoryFolder {
    const root = new MemoryFolder(options);
    copyInto(root, this, () => new MemoryFolder(options, root));
    return root;
  }

  async getDirectoryHandle(name: string, { create = false } = {}): Promise<MemoryFolder> {
    const found = this.folders.get(name);
    if (found !== undefined) return found;
    if (!create) throw notFound(name);
    const made = new MemoryFolder(this.#shared, this.#root);
    this.folders.set(name, made);
    return made;
  }

  async getFileHandle(name: string, { create = false } = {}): Promise<StorageFile> {
    if (!this.files.has(name)) {
      if (!create) throw notFound(name);
      this.#set(name, new Uint8Array(0));
    }
    const { writes } = this.#shared;
    return {
      getFile: async () => {
        const bytes = this.files.get(name);
        if (bytes === undefined) throw notFound(name);
        return new File([bytes], name);
      },
      ...(writes === "in place"
        ? { createSyncAccessHandle: async () => this.#access(name) }
        : { createWritable: async (options) => this.#writable(name, options) }),
    };
  }

  async removeEntry(name: string, { recursive = false } = {}): Promise<void> {
    const folder = recursive ? this.folders.get(name) : undefined;
    const isFolder = folder !== undefined && this.folders.delete(name);
    if (folder !== undefined) folder.#clear();
    if (!isFolder && !this.files.delete(name)) throw notFound(name);
    this.#shared.onChange?.();
  }

  async *keys(): AsyncGenerator<string> {
    yield* [...this.folders.keys(), ...this.files.keys()];
  }

  /** Handles of what was removed find nothing any more. */
  #clear(): void {
    for (const folder of this.folders.values()) folder.#clear();
    this.folders.clear();
    this.files.clear();
  }

  #set(name: string, bytes: Uint8Array<ArrayBuffer>): void {
    const growth = bytes.length - (this.files.get(name)?.length ?? 0);
    if (growth > 0 && this.#root.used + growth > this.#shared.quota) {
      throw new DOMException("The quota is used up", "QuotaExceededError");
    }
    this.files.set(name, bytes);
    this.#shared.onChange?.();
  }

  #access(name: string): SyncAccess {
    return {
      truncate: (size) => this.#set(name, resized(this.files.get(name)!, size)),
      write: (bytes, { at }) => {
        // Browsers may write less than they are asked for.
        const piece = bytes.subarray(0, Math.max(1, Math.ceil(bytes.length / 2)));
        this.#set(name, written(this.files.get(name)!, piece, at));
        return piece.length;
      },
      flush: () => {},
      close: () => {},
    };
  }

  #writable(name: string, { keepExistingData = false } = {}): WritableCopy {
    let bytes = keepExistingData ? this.files.get(name)!.slice() : new Uint8Array(0);
    return {
      truncate: async (size) => {
        bytes = resized(bytes, size);
      },
      write: async ({ position, data }) => {
        bytes = written(bytes, data, position);
      },
      close: async () => this.#set(name, bytes),
    };
  }
}

function copyInto(to: MemoryFolder, from: MemoryFolder, make: () => MemoryFolder): void {
  for (const [name, bytes] of from.files) to.files.set(name, bytes.slice());
  for (const [name, folder] of from.folders) {
    const made = make();
    to.folders.set(name, made);
    copyInto(made, folder, make);
  }
}

function resized(bytes: Uint8Array<ArrayBuffer>, size: number): Uint8Array<ArrayBuffer> {
  const result = new Uint8Array(size);
  result.set(bytes.subarray(0, size));
  return result;
}

function written(
  bytes: Uint8Array<ArrayBuffer>,
  piece: Uint8Array,
  at: number,
): Uint8Array<ArrayBuffer> {
  const result = resized(bytes, Math.max(bytes.length, at + piece.length));
  result.set(piece, at);
  return result;
}

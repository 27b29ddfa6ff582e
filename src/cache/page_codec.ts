/**
 * Carries pages of the KV cache between the GPU and bytes on the host, by range of layers.
 *
 * Pages are copied in the order of their numbers, so that neighbours travel in one piece; the host
 * puts them into the caller's order. This module does not know what a page is for.
 *
 * The layer of a module that drafts, behind those of the model, travels with them, but nothing hangs
 * on it: pages that have it go to a cache without it, and where they lack it it is filled with zeros.
 * Answers are the same, and only the drafts of such a page's tokens are worse.
 *
 * @module
 */
import { DeviceError, KernelError } from "../errors.ts";
import { finished } from "../gpu/submit_poll.ts";
import type { KvCache } from "./kv_cache.ts";
import type { EntryShares, SharedLayout } from "./page_form.ts";
import {
  allocatePacked,
  openPacked,
  type PageHeader,
  packedBytes,
  packedSizes,
  pageBytes,
  seal,
} from "./page_header.ts";

export interface PageCodecOptions {
  readonly cache: KvCache;
  /** Layers of the cache, behind those of the model, of a module that drafts. Default 0. */
  readonly draftLayers?: number | undefined;
  /** Tokens a page holds. */
  readonly pageSize: number;
  readonly modelHash: string;
  /** How the model computes, as far as it changes bits. */
  readonly numerics: string;
  /** How ranks share its entries. Default: there is one rank. */
  readonly shares?: EntryShares | undefined;
  /** GPU memory to read through, at least a page of one layer. Default 16 MiB. */
  readonly stagingBytes?: number | undefined;
}

/** Layers `[firstLayer, firstLayer + layerCount)` of the cache. Default: all. */
export interface LayerRange {
  readonly firstLayer?: number;
  readonly layerCount?: number;
}

export interface WritePagesOptions {
  /** Leading pages to leave out. Default 0. */
  readonly skip?: number;
}

/** Pages `order[first ... first + count)` of one layer, at byte `at` of the staging buffer. */
interface Piece {
  readonly layer: number;
  readonly first: number;
  readonly count: number;
  readonly at: number;
}

const STAGING_BYTES = 16 * 2 ** 20;
const STAGING_USAGE = 0x1 | 0x8; // MAP_READ | COPY_DST
const MAP_MODE_READ = 0x1;

export class PageCodec {
  readonly layout: SharedLayout;
  readonly #device: GPUDevice;
  readonly #cache: KvCache;
  readonly #pageBytes: number;
  /** Pages of one layer that fit the staging buffer. */
  readonly #room: number;
  readonly #staging: GPUBuffer;
  /** Ends when no read uses the staging buffer. */
  #reading: Promise<unknown> = Promise.resolve();

  constructor(device: GPUDevice, options: PageCodecOptions) {
    const { cache, pageSize, modelHash, numerics, shares, stagingBytes = STAGING_BYTES } = options;
    const layers = cache.shape.layers - (options.draftLayers ?? 0);
    this.layout = { ...cache.shape, layers, pageSize, modelHash, numerics, shares };
    this.#device = device;
    this.#cache = cache;
    this.#pageBytes = pageBytes(this.layout);
    this.#room = Math.max(Math.floor(stagingBytes / this.#pageBytes), 1);
    // Now, as a read that finds no memory for it would look like one from a lost device.
    const size = this.#room * this.#pageBytes;
    this.#staging = device.createBuffer({ label: "page staging", size, usage: STAGING_USAGE });
  }

  /** Bytes that `readPages` gives for so many pages. */
  packedBytes(pageCount: number, range: LayerRange = {}): number {
    return packedBytes(this.#header(pageCount, range));
  }

  /** Bytes that `writePages` may be given for so many pages of all layers, one of these. */
  packedSizes(pageCount: number): readonly number[] {
    return packedSizes(this.layout, pageCount);
  }

  /**
   * Copies pages to the host, as everything submitted so far leaves them. They must not change
   * until this resolves.
   *
   * @param pages Page numbers.
   * @returns What `writePages` takes.
   * @throws {DeviceError} when the device is lost.
   */
  readPages(pages: readonly number[], range: LayerRange = {}): Promise<Uint8Array<ArrayBuffer>> {
    this.#check(pages);
    const header = this.#header(pages.length, range);
    const read = this.#reading.then(() => this.#read(pages, header));
    this.#reading = read.catch(() => {});
    return read;
  }

  /**
   * Puts pages into the cache, before everything that is submitted later. Behind the model's last
   * layer, the cache's layers that the bytes lack become zero.
   *
   * @param bytes What `readPages` gave, here or elsewhere.
   * @param pages Where its pages go, without those that are skipped.
   * @throws {TransferError} naming what is wrong with the bytes; nothing is written then.
   * @throws {DeviceError} when the device is lost.
   */
  async writePages(
    bytes: Uint8Array<ArrayBuffer>,
    pages: readonly number[],
    { skip = 0 }: WritePagesOptions = {},
  ): Promise<void> {
    const { header, payload } = openPacked(bytes, this.layout);
    this.#check(pages);
    if (pages.length + skip !== header.pageCount) {
      const problem = `${header.pageCount} pages do not go to ${pages.length} after ${skip}`;
      throw new KernelError("page codec", problem);
    }
    const size = this.#pageBytes;
    const order = ascending(pages);
    const end = header.firstLayer + header.layerCount;
    for (const pieces of this.#pieces(pages.length, this.#written(header))) {
      for (const { layer, first, count } of pieces) {
        const base = (layer - header.firstLayer) * header.pageCount + skip;
        const { buffer, offset } = this.#cache.layers[layer]!;
        for (const run of runs(pages, order.subarray(first, first + count))) {
          const sorted = new Uint8Array(run.length * size);
          if (layer < end) {
            run.forEach((index, i) => {
              const at = (base + index) * size;
              sorted.set(payload.subarray(at, at + size), i * size);
            });
          }
          this.#device.queue.writeBuffer(buffer, offset + pages[run[0]!]! * size, sorted);
        }
      }
      // Else the queue would hold a copy of everything at once.
      await finished(this.#device, this.#device.queue.onSubmittedWorkDone()).catch(
        (cause: unknown) => {
          throw new DeviceError("Cannot write cache pages: the device is lost", { cause });
        },
      );
    }
  }

  destroy(): void {
    this.#staging.destroy();
  }

  async #read(pages: readonly number[], header: PageHeader): Promise<Uint8Array<ArrayBuffer>> {
    const { bytes, payload } = allocatePacked(header);
    const size = this.#pageBytes;
    const order = ascending(pages);
    for (const pieces of this.#pieces(pages.length, header)) {
      try {
        const staged = await this.#stage(pages, order, pieces);
        for (const { layer, first, count, at } of pieces) {
          const base = (layer - header.firstLayer) * pages.length;
          for (let i = 0; i < count; i++) {
            const from = at + i * size;
            payload.set(staged.subarray(from, from + size), (base + order[first + i]!) * size);
          }
        }
      } finally {
        // Whatever has failed, the next pages need it.
        this.#staging.unmap();
      }
    }
    seal(bytes);
    return bytes;
  }

  /** The pieces' bytes, until the staging buffer is unmapped. */
  async #stage(
    pages: readonly number[],
    order: Uint32Array,
    pieces: readonly Piece[],
  ): Promise<Uint8Array> {
    const size = this.#pageBytes;
    const encoder = this.#device.createCommandEncoder();
    let end = 0;
    for (const { layer, first, count, at } of pieces) {
      const { buffer, offset } = this.#cache.layers[layer]!;
      let to = at;
      for (const run of runs(pages, order.subarray(first, first + count))) {
        const from = offset + pages[run[0]!]! * size;
        const length = run.length * size;
        encoder.copyBufferToBuffer(buffer, from, this.#staging, to, length);
        to += length;
      }
      end = to;
    }
    this.#device.queue.submit([encoder.finish()]);
    try {
      await finished(this.#device, this.#staging.mapAsync(MAP_MODE_READ, 0, end));
      return new Uint8Array(this.#staging.getMappedRange(0, end));
    } catch (cause) {
      throw new DeviceError("Cannot read cache pages: the device is lost", { cause });
    }
  }

  /** All pages of all layers, in portions that the staging buffer holds. */
  *#pieces(
    pageCount: number,
    { firstLayer, layerCount }: Required<LayerRange>,
  ): Generator<Piece[], void> {
    let pieces: Piece[] = [];
    let used = 0;
    for (let layer = firstLayer; layer < firstLayer + layerCount; layer++) {
      for (let first = 0; first < pageCount; ) {
        const count = Math.min(this.#room - used, pageCount - first);
        pieces.push({ layer, first, count, at: used * this.#pageBytes });
        first += count;
        used += count;
        if (used < this.#room) continue;
        yield pieces;
        pieces = [];
        used = 0;
      }
    }
    if (used > 0) yield pieces;
  }

  /** Layers of the cache that pages change. */
  #written({ firstLayer, layerCount }: PageHeader): Required<LayerRange> {
    const { layers } = this.#cache.shape;
    const given = firstLayer + layerCount;
    const end = given === this.layout.layers ? layers : Math.min(given, layers);
    return { firstLayer, layerCount: end - firstLayer };
  }

  #header(pageCount: number, range: LayerRange): PageHeader {
    const { layers } = this.#cache.shape;
    const { firstLayer = 0, layerCount = layers - firstLayer } = range;
    if (!(firstLayer >= 0 && layerCount >= 0 && firstLayer + layerCount <= layers)) {
      const problem = `layers ${firstLayer} to ${firstLayer + layerCount} are not in ${layers}`;
      throw new KernelError("page codec", problem);
    }
    return { ...this.layout, firstLayer, layerCount, pageCount };
  }

  #check(pages: readonly number[]): void {
    const count = this.#cache.slots / this.layout.pageSize;
    const wrong = pages.find((page) => !(page >= 0 && page + 1 <= count));
    if (wrong !== undefined) throw new KernelError("page codec", `there is no page ${wrong}`);
  }
}

/** Indices of the pages, those of lower numbers first. */
function ascending(pages: readonly number[]): Uint32Array {
  return Uint32Array.from(pages.keys()).sort((a, b) => pages[a]! - pages[b]!);
}

/** Cuts sorted indices into runs whose pages lie side by side. */
function* runs(pages: readonly number[], order: Uint32Array): Generator<Uint32Array, void> {
  let start = 0;
  for (let i = 1; i <= order.length; i++) {
    if (i < order.length && pages[order[i]!]! === pages[order[i - 1]!]! + 1) continue;
    yield order.subarray(start, i);
    start = i;
  }
}

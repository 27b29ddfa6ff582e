/**
 * How pages travel where a draft model has entries beside the model's: those of both go to host memory
 * and come back, and stored prefixes, which outlive the draft model, have the model's only.
 *
 * @module
 */
import type { KvCache } from "../../cache/kv_cache.ts";
import { PageCodec } from "../../cache/page_codec.ts";
import type { PageCarrier } from "../schedule/retraction_memory.ts";

/** The draft's side of a page. */
export interface DraftPages {
  readonly device: GPUDevice;
  readonly cache: KvCache;
  readonly pageSize: number;
  /** Carries its entries. */
  readonly codec: PageCodec;
}

/** The draft's entries, which never leave the process. */
export function openDraftPages(
  loading: {
    readonly prepared: Pick<DraftPages, "device"> & {
      readonly options: Pick<DraftPages, "pageSize">;
    };
    readonly owned: { destroy(): void }[];
  },
  { cache, hash }: Pick<DraftPages, "cache"> & { readonly hash: string },
): DraftPages {
  const { device, options } = loading.prepared;
  const { pageSize } = options;
  const numerics = "of a draft model";
  const codec = new PageCodec(device, { cache, pageSize, modelHash: hash, numerics });
  loading.owned.push(codec);
  return { device, cache, pageSize, codec };
}

/** Both sides of a page, on the device that is there. */
interface Sides {
  readonly codec: Pick<PageCodec, "packedBytes" | "readPages" | "writePages">;
  readonly draft: DraftPages | undefined;
}

/** Carries pages to host memory and back. */
export function pageCarrier(sides: () => Sides): PageCarrier {
  return {
    packedBytes(pageCount) {
      const { codec, draft } = sides();
      return codec.packedBytes(pageCount) + (draft?.codec.packedBytes(pageCount) ?? 0);
    },
    async readPages(pages) {
      const { codec, draft } = sides();
      if (draft === undefined) return codec.readPages(pages);
      const [own, drafted] = await Promise.all([
        codec.readPages(pages),
        draft.codec.readPages(pages),
      ]);
      const both = new Uint8Array(own.length + drafted.length);
      both.set(own);
      both.set(drafted, own.length);
      return both;
    },
    async writePages(bytes, pages, options) {
      const { codec, draft } = sides();
      if (draft === undefined) return codec.writePages(bytes, pages, options);
      const end = codec.packedBytes(pages.length + options.skip);
      // The codec takes a buffer of its own.
      await codec.writePages(bytes.slice(0, end), pages, options);
      await draft.codec.writePages(bytes.slice(end), pages, options);
    },
  };
}

/** Carries pages to a store of prefixes and back. A draft has no entries of what comes back. */
export function prefixCarrier(
  sides: () => Sides,
): Pick<PageCodec, "packedBytes" | "readPages" | "writePages"> {
  return {
    packedBytes: (pageCount, range) => sides().codec.packedBytes(pageCount, range),
    readPages: (pages, range) => sides().codec.readPages(pages, range),
    async writePages(bytes, pages, options) {
      const { codec, draft } = sides();
      await codec.writePages(bytes, pages, options);
      if (draft === undefined) return;
      const { device, cache, pageSize } = draft;
      // Else it would see those of a sequence that had the page before.
      cache.clear(
        device,
        pages.map((page) => page * pageSize),
        pageSize,
      );
    },
  };
}

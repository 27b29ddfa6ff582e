/**
 * The bytes that pages of the KV cache travel as: what they are pages of, then their contents.
 *
 * | bytes | what |
 * |---|---|
 * | `[0, 4)` | magic, "WSPK" |
 * | `[4, 8)` | version |
 * | `[8, 12)` | bytes of the fields |
 * | `[12, 16)` | CRC-32C of everything behind it |
 * | fields | JSON of `PageHeader`, filled up with spaces to a multiple of 8 bytes |
 * | payload | layer by layer the pages, in each page its tokens' entries as the cache has them |
 *
 * Numbers are little endian. Nothing here knows a GPU.
 *
 * @module
 */
import type { CacheDtype } from "../../kernels/cache/cache_kernel.ts";
import { TransferError } from "../errors.ts";
import { crc32c } from "./crc32c.ts";
import { entryBytes } from "./kv_cache.ts";

/** What has to agree between the cache that pages come from and the one they go to. */
export interface PageLayout {
  /** Of the weights: the keys and values of another model mean nothing. */
  readonly modelHash: string;
  /** How the model computes, as far as it changes bits. */
  readonly numerics: string;
  readonly dtype: CacheDtype;
  /** Elements of one token's entry in one layer. */
  readonly entryWidth: number;
  /** Tokens a page holds. */
  readonly pageSize: number;
  /** Layers of the model; that of a module that drafts, which no answer depends on, is not one. */
  readonly layers: number;
}

export interface PageHeader extends PageLayout {
  /**
   * The pages' layers are `[firstLayer, firstLayer + layerCount)`, the module's that drafts behind the
   * model's.
   */
  readonly firstLayer: number;
  readonly layerCount: number;
  readonly pageCount: number;
}

export interface PackedPages {
  readonly header: PageHeader;
  readonly payload: Uint8Array<ArrayBuffer>;
}

const MAGIC = 0x4b505357;
const VERSION = 1;
const PREFIX_BYTES = 16;
const FIELDS_AT = 8;
const CHECKSUM_AT = 12;
const ALIGNMENT = 8;
/** Layers at most that pages have behind those of the model. */
const DRAFT_LAYERS = 1;

/** The fields that have to be the same on both sides. */
const LAYOUT_FIELDS = [
  "modelHash",
  "numerics",
  "dtype",
  "entryWidth",
  "pageSize",
  "layers",
] as const satisfies readonly (keyof PageLayout)[];
const COUNT_FIELDS = [
  "firstLayer",
  "layerCount",
  "pageCount",
] as const satisfies readonly (keyof PageHeader)[];

/** Bytes of one page in one layer. */
export function pageBytes(layout: PageLayout): number {
  return entryBytes(layout) * layout.pageSize;
}

/** Bytes of pages with their header. */
export function packedBytes(header: PageHeader): number {
  return PREFIX_BYTES + encodeFields(header).length + payloadBytes(header);
}

/** Bytes of pages of all layers with their header: without a draft module's layer, and with it. */
export function packedSizes(layout: PageLayout, pageCount: number): readonly number[] {
  return Array.from({ length: DRAFT_LAYERS + 1 }, (_, more) =>
    packedBytes({ ...layout, firstLayer: 0, layerCount: layout.layers + more, pageCount }),
  );
}

/** Room for pages: the header is written, the payload is zero. Fill it, then `seal`. */
export function allocatePacked(header: PageHeader): {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly payload: Uint8Array<ArrayBuffer>;
} {
  const fields = encodeFields(header);
  const start = PREFIX_BYTES + fields.length;
  const bytes = new Uint8Array(start + payloadBytes(header));
  const view = new DataView(bytes.buffer);
  [MAGIC, VERSION, fields.length].forEach((word, i) => {
    view.setUint32(4 * i, word, true);
  });
  bytes.set(fields, PREFIX_BYTES);
  return { bytes, payload: bytes.subarray(start) };
}

/** Takes pages apart that were packed in this process: nothing about them is checked. */
export function splitPacked(bytes: Uint8Array<ArrayBuffer>): PackedPages {
  const fields = new DataView(bytes.buffer, bytes.byteOffset).getUint32(FIELDS_AT, true);
  const start = PREFIX_BYTES + fields;
  const header = decodeFields(bytes.subarray(PREFIX_BYTES, start)) as PageHeader;
  return { header, payload: bytes.subarray(start) };
}

/** Writes the checksum of pages whose payload is complete. */
export function seal(bytes: Uint8Array<ArrayBuffer>): void {
  const checksum = crc32c(bytes.subarray(PREFIX_BYTES));
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(CHECKSUM_AT, checksum, true);
}

/**
 * Checks pages that came from elsewhere, everything about them, and finds their payload.
 *
 * @param wanted What the cache they are for is like.
 * @throws {TransferError} naming the first field that is wrong.
 */
export function openPacked(bytes: Uint8Array<ArrayBuffer>, wanted: PageLayout): PackedPages {
  if (bytes.length < PREFIX_BYTES) refuse("length", `they are ${bytes.length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const word = (at: number) => view.getUint32(at, true);
  if (word(0) !== MAGIC) refuse("magic", "they do not begin as pages do");
  if (word(4) !== VERSION) refuse("version", `it is ${word(4)} and not ${VERSION}`);
  const start = PREFIX_BYTES + word(FIELDS_AT);
  if (start > bytes.length) refuse("length", "they end before their payload");
  const header = decodeFields(bytes.subarray(PREFIX_BYTES, start));
  for (const field of LAYOUT_FIELDS) {
    if (header[field] !== wanted[field]) {
      refuse(field, `it is ${JSON.stringify(header[field])} and not ${wanted[field]}`);
    }
  }
  for (const field of COUNT_FIELDS) {
    if (!Number.isSafeInteger(header[field]) || header[field]! < 0) {
      refuse(field, `${JSON.stringify(header[field])} is no count`);
    }
  }
  const checked = header as PageHeader;
  const { firstLayer, layerCount, layers } = checked;
  const most = layers + DRAFT_LAYERS;
  if (firstLayer + layerCount > most) {
    refuse("layerCount", `layers ${firstLayer} to ${firstLayer + layerCount} are not in ${most}`);
  }
  const payload = bytes.subarray(start);
  if (payload.length !== payloadBytes(checked)) {
    refuse("length", `the payload is ${payload.length} bytes and not ${payloadBytes(checked)}`);
  }
  if (crc32c(bytes.subarray(PREFIX_BYTES)) !== word(CHECKSUM_AT)) {
    refuse("checksum", "their bytes have changed");
  }
  return { header: checked, payload };
}

function payloadBytes(header: PageHeader): number {
  return pageBytes(header) * header.pageCount * header.layerCount;
}

function encodeFields(header: PageHeader): Uint8Array {
  const fields = [...LAYOUT_FIELDS, ...COUNT_FIELDS].map((name) => [name, header[name]]);
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(fields)));
  const padded = new Uint8Array(Math.ceil(json.length / ALIGNMENT) * ALIGNMENT).fill(0x20);
  padded.set(json);
  return padded;
}

function decodeFields(bytes: Uint8Array): Partial<PageHeader> {
  try {
    const fields: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (typeof fields === "object" && fields !== null) return fields;
  } catch (cause) {
    throw new TransferError("cache pages", "fields", "they are not JSON", { cause });
  }
  return refuse("fields", "they are no object");
}

function refuse(field: string, problem: string): never {
  throw new TransferError("cache pages", field, problem);
}

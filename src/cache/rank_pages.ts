/**
 * Carries pages of a cache that several ranks share: each has its own heads of every token, and the
 * bytes of a page are those of all ranks, one behind the other. Of ranks that have the same, as all have
 * a latent, the first one's are read, and written to each.
 *
 * @module
 */
import { TransferError } from "../errors.ts";
import type { LayerRange, PageCodec, WritePagesOptions } from "./page_codec.ts";
import { ownersOf, partOfRank, type SharedLayout, UNSHARED } from "./page_form.ts";

export class RankPages {
  readonly #ranks: readonly PageCodec[];
  /** Those that are read. */
  readonly #owners: readonly PageCodec[];

  /** @param ranks In their order; of the same sizes. */
  constructor(ranks: readonly PageCodec[]) {
    this.#ranks = ranks;
    this.#owners = ownersOf(ranks[0]!.layout.shares ?? UNSHARED).map((rank) => ranks[rank]!);
  }

  /** Of the first rank, which says how many there are. */
  get layout(): SharedLayout {
    return this.#ranks[0]!.layout;
  }

  packedBytes(pageCount: number, range?: LayerRange): number {
    return this.#owners.length * this.#ranks[0]!.packedBytes(pageCount, range);
  }

  packedSizes(pageCount: number): readonly number[] {
    return this.#ranks[0]!.packedSizes(pageCount).map((size) => size * this.#owners.length);
  }

  /** As `PageCodec.readPages`. */
  async readPages(pages: readonly number[], range?: LayerRange): Promise<Uint8Array<ArrayBuffer>> {
    const parts = await Promise.all(this.#owners.map((codec) => codec.readPages(pages, range)));
    if (parts.length === 1) return parts[0]!;
    const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    parts.forEach((part, i) => {
      all.set(part, i * part.length);
    });
    return all;
  }

  /** As `PageCodec.writePages`; a rank may have written its pages where another one's are refused. */
  async writePages(
    bytes: Uint8Array<ArrayBuffer>,
    pages: readonly number[],
    options?: WritePagesOptions,
  ): Promise<void> {
    const count = this.#owners.length;
    if (bytes.length % count !== 0) {
      const problem = `${bytes.length} bytes are not those of ${count} ranks`;
      throw new TransferError("cache pages", "length", problem);
    }
    const size = bytes.length / count;
    const { shares = UNSHARED } = this.layout;
    await Promise.all(
      this.#ranks.map((codec, rank) => {
        const part = partOfRank(shares, rank);
        return codec.writePages(bytes.subarray(part * size, (part + 1) * size), pages, options);
      }),
    );
  }
}

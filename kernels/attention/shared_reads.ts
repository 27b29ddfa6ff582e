import plain from "../common/shared_reads.wgsl?raw";
import shuffle from "../common/shared_reads_shuffle.wgsl?raw";

/** A kernel's text with `shared_read` in its two forms; see kernels/common/shared_reads.wgsl. */
export function withSharedReads(source: string): {
  readonly plain: string;
  readonly shuffle: string;
} {
  return { plain: `${source}\n${plain}`, shuffle: `enable subgroups;\n${source}\n${shuffle}` };
}

/** What decides which form is used, and its constants. */
export interface SharingOptions {
  /**
   * Invocations of a subgroup, at least 4, where every workgroup is known to be cut in subgroups
   * of this size, in order; they then share reads. Changes no bit.
   */
  readonly subgroupSize?: number | undefined;
}

export const sharingConstants = ({ subgroupSize }: SharingOptions) =>
  subgroupSize === undefined ? {} : { SUBGROUP_SIZE: subgroupSize };

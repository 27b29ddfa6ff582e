// Reads that every invocation of a workgroup needs: each invocation of a subgroup reads something
// else and hands it round. Needs subgroups of SUBGROUP_SIZE >= 4 invocations, in the order of the
// invocations; a power of two. The compiler drops the reads of `own`.

const SUBGROUP_SIZE = 8u;
// Invocations that certainly share a subgroup, as many as anything here is read for.
const SHARERS = min(min(SUBGROUP_SIZE, LANES), 8u);

const_assert SHARERS >= 4u && (SHARERS & (SHARERS - 1u)) == 0u;

// See shared_reads.wgsl. `reader` is best a constant once loops are unrolled.
fn shared_read(mine: vec4f, reader: u32, own: vec4f) -> vec4f {
  return subgroupShuffle(mine, reader);
}

fn shared_index(mine: u32, reader: u32, own: u32) -> u32 {
  return subgroupShuffle(mine, reader);
}

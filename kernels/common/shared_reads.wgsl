// Reads that every invocation of a workgroup needs: here each reads for itself.

// Invocations that would read for one another.
const SHARERS = 8u;

// mine: what this invocation read for the others; reader: the invocation whose read is wanted;
// own: the same, read by everyone.
fn shared_read(mine: vec4f, reader: u32, own: vec4f) -> vec4f {
  return own;
}

// The same for whole numbers.
fn shared_index(mine: u32, reader: u32, own: u32) -> u32 {
  return own;
}

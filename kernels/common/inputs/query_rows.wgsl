// Queries that lie in rows of the kernel's binding `q`, as attention_split.wgsl asks for them.

fn query_quad(asked: Queries, query: u32, quad: u32, turned: bool) -> vec4f {
  let start = row_of(asked, query) * (params.q_stride / 4u) + head_of(asked, query) * HEAD_QUADS;
  return q[start + quad];
}

// Slots of the cache that hold four keys of a row that may be of a draft tree. Keys are numbered as
// the row's path has them, so all that goes by their numbers is as in a sequence that is that path.
// `path` is where in `page_tables` the row's path stands, see tree_paths.ts: the index of its
// sequence's first page; the number of keys in front of the tree; the nodes from the root to the
// row, a byte each.

const NODES_AT = 2u;

fn slots_of(path: u32, key: vec4u) -> vec4u {
  let token = key_index(path, key);
  let page = vec4u(page_tables[path]) + token / params.page_size;
  let pages = vec4u(
    page_tables[page.x], page_tables[page.y], page_tables[page.z], page_tables[page.w]);
  return pages * params.page_size + token % params.page_size;
}

// Where in its sequence the entries of keys stand: node n of the tree is entry base + n.
fn key_index(path: u32, key: vec4u) -> vec4u {
  let base = vec4u(page_tables[path + 1u]);
  if all(key < base) { return key; }
  let depth = key - min(key, base);
  let word = vec4u(path + NODES_AT) + depth / 4u;
  let words = vec4u(
    page_tables[word.x], page_tables[word.y], page_tables[word.z], page_tables[word.w]);
  let node = (words >> (8u * (depth % 4u))) & vec4u(0xffu);
  return select(base + node, key, key < base);
}

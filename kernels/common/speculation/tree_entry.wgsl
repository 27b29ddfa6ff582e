// A drafted sequence: `first` of `count` rows of logits; its pages hold `places` entries, and their
// numbers start at word `first_page`. Kernels find `last_row`, where its accepted path ends, the
// `position` that it goes on behind, the `step` of drafts, and the `token` that is drawn behind the
// path, at the position `next`.

struct Entry {
  first: u32,
  count: u32,
  places: u32,
  first_page: u32,
  last_row: u32,
  position: u32,
  step: u32,
  token: u32,
  next: u32,
}

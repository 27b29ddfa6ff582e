// A drafted sequence: `first` of `count` rows of logits; its pages hold `places` entries, and their
// numbers start at word `first_page`. Kernels find `last_row`, where its accepted path ends, the
// `position` that it goes on behind, and the `step` of drafts.

struct Entry {
  first: u32,
  count: u32,
  places: u32,
  first_page: u32,
  last_row: u32,
  position: u32,
  step: u32,
}

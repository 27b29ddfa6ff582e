// Entries of gqa_entries.wgsl that all lie in the cache.

fn entries_of_row(key: vec4u, places: vec4u) -> vec4u {
  return places;
}

fn entry_quad(place: u32) -> CacheQuad {
  return cache[place];
}

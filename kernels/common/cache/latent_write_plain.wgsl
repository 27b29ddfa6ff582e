// How an entry whose elements are kept as they are is stored, by ENTRY_LANES invocations. Each owns a
// pair at a time, which may be one word.

fn find_largest(entry: Entry, lane: u32) {
}

fn write_entry(entry: Entry, lane: u32) {
  let latent_pairs = params.latent / 2u;
  let pairs = latent_pairs + params.rope / 2u;
  for (var pair = lane; pair < pairs; pair += ENTRY_LANES) {
    var value = vec2f();
    if pair < latent_pairs {
      value = latent_pair(entry, pair);
    } else {
      value = rope_pair(entry, pair - latent_pairs);
    }
    cache[entry.row.z * pairs + pair] = encode_pair(value);
  }
}

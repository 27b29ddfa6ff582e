// How an entry in FP8 is stored, by ENTRY_LANES invocations: the codes of the latent, a scale for
// each RUN_WORDS words of them, then the rope part in BF16.

const RUN_WORDS = 32u;
const MAX_RUNS = 64u;

var<workgroup> largest_of_run: array<atomic<u32>, MAX_RUNS>;

fn latent_quad(entry: Entry, word: u32) -> vec4f {
  return vec4f(latent_pair(entry, 2u * word), latent_pair(entry, 2u * word + 1u));
}

fn find_largest(entry: Entry, lane: u32) {
  for (var word = lane; word < params.latent / 4u; word += ENTRY_LANES) {
    atomicMax(&largest_of_run[word / RUN_WORDS], magnitude_bits(latent_quad(entry, word)));
  }
}

fn write_entry(entry: Entry, lane: u32) {
  let words = params.latent / 4u;
  let runs = (words + RUN_WORDS - 1u) / RUN_WORDS;
  let pairs = params.rope / 2u;
  let to = entry.row.z * (words + runs + pairs);
  for (var word = lane; word < words; word += ENTRY_LANES) {
    let run = word / RUN_WORDS;
    let scale = code_scale(atomicLoad(&largest_of_run[run]));
    cache[to + word] = encode_codes(latent_quad(entry, word) / scale);
    if word % RUN_WORDS == 0u { cache[to + words + run] = bitcast<u32>(scale); }
  }
  for (var pair = lane; pair < pairs; pair += ENTRY_LANES) {
    cache[to + words + runs + pair] = encode_bf16(rope_pair(entry, pair));
  }
}

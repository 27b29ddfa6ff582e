// How cache/gqa_write stores a row's keys and values as FP8: each vector of HEAD_DIM codes is followed
// by its scale. First every vector's largest magnitude is found, then an invocation owns a word: four
// neighbours, which lie in two units, so these are computed again.

const MAX_VECTORS = 1024u;
const VECTOR_WORDS = HEAD_UNITS + 1u;

var<workgroup> largest: array<atomic<u32>, MAX_VECTORS>;

fn write_vectors(row: u32, lane: u32) {
  let end = 2u * params.kv_heads * HEAD_UNITS;
  for (var i = lane; i < end; i += LANES) {
    let vector = i / HEAD_UNITS;
    let unit = turned(row, params.heads + vector, i % HEAD_UNITS);
    atomicMax(&largest[vector], magnitude_bits(vec4f(unit.x, unit.y)));
  }
  workgroupBarrier();

  let slot = rows[row].z * (2u * params.kv_heads * VECTOR_WORDS);
  for (var i = lane; i < end; i += LANES) {
    let vector = i / HEAD_UNITS;
    let word = i % HEAD_UNITS;
    let head = params.heads + vector;
    let scale = code_scale(atomicLoad(&largest[vector]));
    let values = vec4f(turned_pair(row, head, 2u * word), turned_pair(row, head, 2u * word + 1u));
    let to = slot + vector * VECTOR_WORDS;
    cache[to + word] = encode_codes(values / scale);
    if word == 0u { cache[to + HEAD_UNITS] = bitcast<u32>(scale); }
  }
}

// One pair of a head, out of the unit that has it.
fn turned_pair(row: u32, head: u32, pair: u32) -> vec2f {
  let turning = pair < ROTARY / 2u;
  let unit = turned(row, head, select(pair / 2u, pair % max(ROTARY / 4u, 1u), turning));
  return select(unit.y, unit.x, pair == unit.near);
}

// Counter-based random numbers: Philox2x32-10. Needs u64.wgsl.
//
// Source: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).

const PHILOX_ROUNDS = 10u;
const PHILOX_MULTIPLIER = 0xd256d193u;
const PHILOX_KEY_STEP = 0x9e3779b9u;

// Streams of numbers that have nothing to do with each other, of one key and counter.
const TOKEN_STREAM = 0u;
const COIN_STREAM = 1u;

// 32 random bits that depend on nothing but `key`, `counter` and `stream`.
fn philox(key: u32, counter: u32, stream: u32) -> u32 {
  var state = vec2u(counter, stream);
  var round_key = key;
  for (var i = 0u; i < PHILOX_ROUNDS; i++) {
    let product = mul_wide(PHILOX_MULTIPLIER, state.x);
    state = vec2u(product.y ^ round_key ^ state.y, product.x);
    round_key += PHILOX_KEY_STEP;
  }
  return state.x;
}

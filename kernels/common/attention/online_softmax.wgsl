// Softmax over keys that come in pieces. A piece is (highest score m, sum l of exp(score - m),
// sum acc of exp(score - m) * value). Two pieces are put together by
//
//   m = max(m1, m2)   a = rescale(m1, m)   b = rescale(m2, m)
//   l = fma(l2, b, l1 * a)   acc = fma(acc2, b, acc1 * a)
//
// and a piece without keys, (NO_SCORE, 0, 0), changes no bit of the other.

// Below every score; finite, because exp(-infinity - -infinity) is not a number.
const NO_SCORE = -1e30;

fn rescale(before: vec4f, now: vec4f) -> vec4f {
  // Exactly 1 where nothing changes, whatever the driver's exp.
  return select(exp(before - now), vec4f(1.0), before == now);
}

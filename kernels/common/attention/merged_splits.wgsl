// What attention left of a query's splits, put together in ascending order. A record is a piece of
// online_softmax.wgsl: m, l and the elements of acc.
//
// Needs `record_word(at)` and, as many elements as are put together at once, Elements with
// `record_elements(at)`.

struct Merged {
  m: f32,
  l: f32,
  acc: Elements,
}

// first: word of the first split's record; stride: words from split to split.
fn merged(first: u32, stride: u32, splits: u32, element: u32) -> Merged {
  var m = vec4f(record_word(first));
  var l = record_word(first + 1u);
  var acc = record_elements(first + 2u + element);
  for (var split = 1u; split < splits; split++) {
    let at = first + split * stride;
    let m_split = vec4f(record_word(at));
    let top = max(m, m_split);
    let a = rescale(m, top).x;
    let b = rescale(m_split, top).x;
    l = fma(record_word(at + 1u), b, l * a);
    acc = fma(record_elements(at + 2u + element), Elements(b), acc * a);
    m = top;
  }
  return Merged(m.x, l, acc);
}

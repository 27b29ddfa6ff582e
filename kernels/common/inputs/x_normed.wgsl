// What a linear kernel multiplies: its activation rows behind their norm, bit for bit as
// cache/mla_write writes them, rounded to E4M3 with ROUNDED. Each workgroup norms the TOKENS rows it
// multiplies, once, into its own memory, so that rows need no launch for their norm.
//
// Needs quantize_e4m3.wgsl, the binding `norm_weight: array<vec4f>` and `params.eps`. Rows
// have `params.columns` columns, of which ROW_VECTORS vectors have room.

alias XVector = vec4f;
const ROUNDED = false;
const ROW_VECTORS = 32u;
// Vectors of a row that are added up side by side: mla_write has 64 invocations, a column each.
const NORM_LANES = 16u;
// Invocations that norm a row together.
const ROW_SHARERS = WORKGROUP_SIZE / TOKENS;
const GROUP_VECTORS = GROUP_COLUMNS / 4u;
const ROW_GROUPS = (ROW_VECTORS + GROUP_VECTORS - 1u) / GROUP_VECTORS;

var<workgroup> normed_rows: array<vec4f, TOKENS * ROW_VECTORS>;
var<workgroup> squares: array<vec4f, TOKENS * NORM_LANES>;
// Bits of the largest magnitude of each group: magnitudes are ordered as their bits.
var<workgroup> group_amax: array<atomic<u32>, TOKENS * ROW_GROUPS>;

fn x_vector(index: u32) -> vec4f {
  return normed_rows[index];
}

// Vectors of row t of these that its invocations norm: none of a row that is the one before it, so
// that one that comes again and again at the end is normed once.
fn own_vectors(first: XRows, columns: u32, t: u32) -> u32 {
  return select((columns + 3u) / 4u, 0u, t > 0u && first[t] == first[max(t, 1u) - 1u]);
}

// Norms the rows of `params.columns` columns that start at these vectors of `x`, row t with what
// norm_scale() gives of it; returns where each starts for x_vector().
fn norm_rows(first: XRows, scale: f32, invocation: u32) -> XRows {
  let t = invocation / ROW_SHARERS;
  let share = invocation % ROW_SHARERS;
  let start = first[t];
  let own = own_vectors(first, params.columns, t);
  for (var v = share; v < own; v += ROW_SHARERS) {
    let value = masked(x[start + v] * scale * norm_weight[v], v);
    normed_rows[t * ROW_VECTORS + v] = value;
    if ROUNDED {
      let most = max(max(abs(value.x), abs(value.y)), max(abs(value.z), abs(value.w)));
      atomicMax(&group_amax[t * ROW_GROUPS + v / GROUP_VECTORS], bitcast<u32>(most));
    }
  }
  workgroupBarrier();
  if ROUNDED {
    for (var v = share; v < own; v += ROW_SHARERS) {
      let i = t * ROW_VECTORS + v;
      let amax = atomicLoad(&group_amax[t * ROW_GROUPS + v / GROUP_VECTORS]);
      normed_rows[i] = round_vector(normed_rows[i], group_scale(bitcast<f32>(amax)));
    }
    workgroupBarrier();
  }
  var rows = XRows();
  for (var i = 1u; i < TOKENS; i++) {
    rows[i] = select(i * ROW_VECTORS, rows[i - 1u], first[i] == first[i - 1u]);
  }
  return rows;
}

// Adds up the squares of rows of so many columns that start at these vectors of `x`.
fn add_squares(first: XRows, columns: u32, invocation: u32) {
  let t = invocation / ROW_SHARERS;
  let own = own_vectors(first, columns, t);
  for (var lane = invocation % ROW_SHARERS; lane < min(own, NORM_LANES); lane += ROW_SHARERS) {
    var sum = vec4f();
    for (var v = lane; v < own; v += NORM_LANES) {
      let inside = vec4u(4u * v) + vec4u(0u, 1u, 2u, 3u) < vec4u(columns);
      let value = select(vec4f(), x[first[t] + v], inside);
      sum = fma(value, value, sum);
    }
    squares[t * NORM_LANES + lane] = sum;
  }
}

// What row t is multiplied with, once its squares are there. In the order of row_sum.wgsl.
fn norm_scale(columns: u32, t: u32) -> f32 {
  // Not from 0: compilers would write out all loads, and take long.
  let first = t * NORM_LANES;
  var sums = vec4f();
  for (var i = first; i < first + NORM_LANES; i++) { sums += squares[i]; }
  let total = (sums.x + sums.y) + (sums.z + sums.w);
  return inverseSqrt(total / f32(columns) + params.eps);
}

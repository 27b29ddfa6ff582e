// Where the granules and the scales of a weight lie: the one place in the kernels that knows.
// linear/weight_order.ts is the one of the host.
//
//   granule g of row r  (r / RUN_ROWS * granules of a row + g) * RUN_ROWS + r % RUN_ROWS
//   scale g of row r    g * rows_padded + r or, with SCALES_BY_RUN, as granules lie
//
// Needs dot_rows.wgsl, one of weights_*.wgsl, and `columns` and `rows_padded` of `params`.

const ROWS_PER_LANE = 1u;
// Rows whose granules lie side by side.
const RUN_ROWS = ROWS_PER_LANE * LANES;
const SCALES_BY_RUN = false;
// Of an invocation's four rows, neighbours that begin one lane of a run and lie in it: 1, 2 or 4. One address is
// enough for them then.
const ROWS_TOGETHER = 1u;

fn column_blocks() -> u32 {
  return (params.columns + BLOCK_COLUMNS - 1u) / BLOCK_COLUMNS;
}

// Index of a piece of each weight row, which is one of the row's granule piece / PIECES.
fn piece_at(first_granule: vec4u, piece: u32) -> vec4u {
  let at = (first_granule + vec4u(piece / PIECES * RUN_ROWS)) * PIECES + vec4u(piece % PIECES);
  if ROWS_TOGETHER == 1u { return at; }
  // From one address, so that loads of the other rows have what they are further as a constant.
  return together(at.x, at.z, PIECES * LANES);
}

// Index of the first granule of a weight row of `columns` columns.
fn row_granule(row: u32) -> u32 {
  return row / RUN_ROWS * (column_blocks() * BLOCK_GRANULES * RUN_ROWS) + row % RUN_ROWS;
}

// Index of the first granule of each weight row.
fn row_granules(row: vec4u) -> vec4u {
  return granules_behind(0u, row);
}

// The same behind so many granules of other weights.
fn granules_behind(others: u32, row: vec4u) -> vec4u {
  if ROWS_TOGETHER == 1u {
    return vec4u(others)
      + vec4u(row_granule(row.x), row_granule(row.y), row_granule(row.z), row_granule(row.w));
  }
  let first = others + row_granule(lane_row(row.x));
  return together(first, others + row_granule(lane_row(row.z)), LANES);
}

// The first of the rows that lie together, of which an invocation without outputs may have another.
fn lane_row(row: u32) -> u32 {
  return row - row % (ROWS_TOGETHER * LANES) + row % LANES;
}

// Places of an invocation's four rows, of the first and the third, where neighbours are `apart`.
fn together(first: u32, third: u32, apart: u32) -> vec4u {
  if ROWS_TOGETHER == 4u { return vec4u(first) + vec4u(0u, 1u, 2u, 3u) * apart; }
  return vec4u(first, first + apart, third, third + apart);
}

// Index of the first scale of each weight row.
fn first_scales(row: vec4u) -> vec4u {
  return scales_behind(0u, row);
}

// The same behind so many scales of other weights.
fn scales_behind(others: u32, row: vec4u) -> vec4u {
  if ROWS_TOGETHER == 1u {
    return vec4u(others)
      + vec4u(first_scale(row.x), first_scale(row.y), first_scale(row.z), first_scale(row.w));
  }
  let first = others + first_scale(lane_row(row.x));
  return together(first, others + first_scale(lane_row(row.z)), LANES);
}

fn first_scale(row: u32) -> u32 {
  if !SCALES_BY_RUN { return row; }
  return row / RUN_ROWS * (column_blocks() * BLOCK_SCALE_WORDS * RUN_ROWS) + row % RUN_ROWS;
}

// From a scale of a row to the next one.
fn scale_step() -> u32 {
  return select(params.rows_padded, RUN_ROWS, SCALES_BY_RUN);
}

// Granules and scales of a whole weight, where several lie behind one another.
fn weight_granules() -> u32 {
  return params.rows_padded * (column_blocks() * BLOCK_GRANULES);
}

fn weight_scales() -> u32 {
  return params.rows_padded * (column_blocks() * BLOCK_SCALE_WORDS);
}

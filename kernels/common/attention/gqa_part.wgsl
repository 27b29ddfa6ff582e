// What a workgroup of the decode form of grouped-query attention has to do: rows
// [members.x, members.x + members.y) of a sequence with HEADS heads of one key head (a tile past the
// last head repeats it), over the keys of a split that they see.

struct Part {
  asked: Queries,
  keys: Keys,
  // A multiple of KEY_TILE. No row sees a key of the split if it is not below keys.end.
  start: u32,
}

fn find_part(group: vec3u, members: vec2u) -> Part {
  let group_size = params.heads / params.kv_heads;
  let head_tiles = (group_size + HEADS - 1u) / HEADS;
  let kv_head = group.y / head_tiles;
  let first_in_group = group.y % head_tiles * HEADS;
  let first_head = kv_head * group_size + first_in_group;
  let head_count = min(HEADS, group_size - first_in_group);

  // The first row sees the first key, the last row the last.
  let length = rows[members.x].y + 1u;
  let first = length - min(length, params.window);
  let split = group.z * params.split_length;
  var end = min(length + members.y - 1u, split + params.split_length);
  if end <= first { end = 0u; }
  let asked = Queries(length, members.x, members.y, first_head, head_count);
  let keys = Keys(rows[members.x].w, kv_head, first, end);
  return Part(asked, keys, max(split, first / KEY_TILE * KEY_TILE));
}

// Attends, and writes the sums of split `split`, or what they come to where it is the only one.
fn attend_part(part: Part, split: u32, lane: u32) {
  let asked = part.asked;
  attend_split(part.start, part.keys.end, asked, part.keys, lane);
  for (var i = 0u; i < query_count(asked); i++) {
    if i / HEADS >= asked.row_count || i % HEADS >= asked.head_count { continue; }
    let row = row_of(asked, i);
    let head = head_of(asked, i);
    var at = row * params.out_stride + head * HEAD_DIM;
    if params.direct == 0u {
      at = ((row * params.max_splits + split) * params.heads + head) * (2u + HEAD_DIM) + 2u;
      if lane == 0u {
        out[at - 2u] = seen[i].x;
        out[at - 1u] = seen[i].y;
      }
    }
    let total = divisor(seen[i].x, seen[i].y, head);
    for (var c = 0u; c < column_count(); c++) {
      let quad = c * LANES + lane;
      if quad >= HEAD_QUADS { continue; }
      let value = acc[i * COLUMNS + c];
      let stored = select(value, value / total, params.direct == 1u);
      for (var e = 0u; e < 4u; e++) { out[at + 4u * quad + e] = stored[e]; }
    }
  }
}

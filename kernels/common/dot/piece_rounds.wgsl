// What group_sums_half.wgsl multiplies: a piece of each of four weight rows, whole or in rounds. A
// compiler that knows how many vectors follow reads activations for all of them before it multiplies
// the first, and takes the registers for it; how many rounds a loop has it cannot tell.
//
// Needs one of weights_*.wgsl and `columns` of `params`.

alias Pieces = array<Piece, 4>;

// 2: the vectors of a piece are multiplied in two rounds of a loop.
const ROUNDS = 1u;
const ROUND_VECTORS = PIECE_VECTORS / ROUNDS;
const ROUND_WORDS = PIECE_BYTES / 4u / ROUNDS;

const_assert ROUNDS == 1u || (ROUNDS == 2u && PIECE_VECTORS == 4u);

fn round_count() -> u32 {
  return select(0u, ROUNDS, params.columns > 0u);
}

// Pieces that begin with the words of a round.
fn round_pieces(pieces: Pieces, round: u32) -> Pieces {
  var now = pieces;
  for (var i = 0u; i < 4u * ROUND_WORDS; i++) {
    let row = i / ROUND_WORDS;
    let word = i % ROUND_WORDS;
    let later = pieces[row][(ROUNDS - 1u) * ROUND_WORDS + word];
    now[row][word] = select(pieces[row][word], later, round > 0u);
  }
  return now;
}

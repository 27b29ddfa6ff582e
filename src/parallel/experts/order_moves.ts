/**
 * In which order the slots of a layer get other experts, so that none is overwritten before what it
 * holds was read for the last time.
 *
 * @module
 */

/** What is copied next. */
export interface ExpertMove {
  readonly expert: number;
  /** The slot it is read from; "spare" is memory beside the slots. */
  readonly from: number | "spare";
  readonly to: number | "spare";
}

/**
 * Moves, one after the other. Slots that keep their expert are not touched, and the spare holds one
 * expert at a time.
 *
 * @param before The expert of each slot; every expert that is wanted has one.
 * @param each Slots of a rank: an expert is read on the rank that wants it where that has it.
 */
export function orderMoves(
  before: readonly number[],
  after: readonly number[],
  each: number,
): ExpertMove[] {
  const now = [...before];
  const waiting = new Set(after.flatMap((expert, slot) => (expert === now[slot] ? [] : [slot])));
  const moves: ExpertMove[] = [];
  let spare: number | undefined;
  const sourceOf = (expert: number, slot: number): number => {
    const own = Math.floor(slot / each) * each;
    const near = now.indexOf(expert, own);
    return near !== -1 && near < own + each ? near : now.indexOf(expert);
  };
  const place = (slot: number) => {
    const expert = after[slot]!;
    const from = expert === spare ? "spare" : sourceOf(expert, slot);
    moves.push({ expert, from, to: slot });
    now[slot] = expert;
    waiting.delete(slot);
  };
  while (waiting.size > 0) {
    const free = [...waiting].filter((slot) => !isLastOf(now, slot, spare, { waiting, after }));
    if (free.length > 0) {
      for (const slot of free) {
        // An earlier one of these may have made this the last that holds its expert.
        if (!isLastOf(now, slot, spare, { waiting, after })) place(slot);
      }
      continue;
    }
    // Only circles are left: the spare takes what one slot of a circle holds.
    const [slot] = waiting;
    spare = now[slot!]!;
    moves.push({ expert: spare, from: slot!, to: "spare" });
    place(slot!);
  }
  return moves;
}

/** Whether a slot is the only place of an expert that another slot still waits for. */
function isLastOf(
  now: readonly number[],
  slot: number,
  spare: number | undefined,
  { waiting, after }: { readonly waiting: ReadonlySet<number>; readonly after: readonly number[] },
): boolean {
  const held = now[slot]!;
  if (held === spare) return false;
  for (const other of waiting) {
    if (other === slot || after[other] !== held) continue;
    return !now.some((expert, at) => expert === held && at !== slot);
  }
  return false;
}

/**
 * Long work in slices, between which other work of the thread has its turns.
 *
 * All long work of a thread shares the slice of one turn of its event loop: however much of it there
 * is, what has to be quick waits for one slice at most.
 *
 * @module
 */

/** Milliseconds of a slice. */
const SLICE_MS = 4;

/** Node's goes once round the event loop; pages have timers, which wait a little. */
const later: (callback: () => void) => unknown =
  (globalThis as { readonly setImmediate?: (callback: () => void) => unknown }).setImmediate ??
  setTimeout;

/** When the slice of this turn of the event loop began; undefined before long work has asked. */
let began: number | undefined;
/** Long work that waits to go on, in its order. */
const waiting = new Set<() => void>();
let isNextTurnAwaited = false;

function awaitNextTurn(): void {
  if (isNextTurnAwaited) return;
  isNextTurnAwaited = true;
  later(() => {
    isNextTurnAwaited = false;
    began = undefined;
    const [goOn] = waiting;
    if (goOn === undefined) return;
    waiting.delete(goOn);
    beginSlice();
    goOn();
  });
}

function beginSlice(): number {
  if (began === undefined) {
    began = performance.now();
    awaitNextTurn();
  }
  return began;
}

/**
 * Resolves when timers, sockets and the GPU's answers had a turn, and all long work that has waited
 * before.
 */
export function othersTurn(): Promise<void> {
  awaitNextTurn();
  return new Promise((resolve) => waiting.add(resolve));
}

export const turns = {
  /** Whether the slice has been long enough. */
  get isDue(): boolean {
    return performance.now() - beginSlice() >= SLICE_MS;
  },

  /** Resolves at once, or, where it is due, when other work had its turn. */
  async take(): Promise<void> {
    if (turns.isDue) await othersTurn();
  },
};

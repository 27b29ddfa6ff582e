/**
 * Which sequence it is whose rows lose the device: found by halves.
 *
 * Most devices are lost for reasons that have nothing to do with a request. So after a first loss all
 * sequences go on together, and the engine only remembers which rows were in the steps in flight: their
 * sequences are suspects, until those rows have been computed after all, which clears them. A loss
 * with some of the same rows in flight leaves only those under suspicion; where none are the same, the
 * sequence's earlier losses were not its doing, and it counts from this one. At a loss with the same
 * rows of suspects in flight, they are searched: one group of them runs at a time, one step after
 * another, and all other sequences wait. The groups are at first two halves.
 *
 * | the group that runs | what becomes of it |
 * |---|---|
 * | computes the rows under suspicion | their sequences are cleared; the next group runs |
 * | loses the device with such rows of several | those are halved; each half is a group |
 * | loses it with rows of one sequence only | that one is found, and ends |
 *
 * So one sequence among n is found at loss 2 + log2(n), and at the third where it runs alone; several
 * that are searched together share the first two. A search has fewer than two losses a sequence, and
 * ends when every group is cleared, found or gone. Where it has found no sequence, those that it has
 * cleared lose the device only together, in a step that is too long for a driver, say: the next time
 * that they are searched, each group runs to its end. So a sequence is searched twice at most without
 * another one being found. One that loses the device now and then, and not with the same rows again,
 * is not found.
 *
 * @module
 */

/** Losses before one sequence is found: two may follow each other by chance, as a driver is replaced. */
const FEWEST_LOSSES = 3;

/** Rows of one sequence, by their positions: from `position` up to `computed`. */
interface Rows {
  readonly position: number;
  readonly computed: number;
}

interface Suspicion extends Rows {
  /** At which these rows were in flight. */
  readonly losses: number;
}

/** The rows of a step: each sequence's first position, and tokens that it has computed after it. */
export type StepProgress<T> = readonly (Rows & { readonly sequence: T })[];

/** What a loss has told of who causes it. */
export type LossFinding<T> =
  | { readonly kind: "searching"; readonly suspects: number }
  | { readonly kind: "found"; readonly sequence: T; readonly losses: number };

export class Suspects<T> {
  /** Of steps that are scheduled and not committed, the oldest first. */
  #inFlight: StepProgress<T>[] = [];
  readonly #suspicions = new Map<T, Suspicion>();
  /** What is to be searched; the first one runs. None of them is empty. */
  #groups: Set<T>[] = [];
  /** What the search that goes on has cleared, and whether it has found a sequence. */
  #cleared: T[] = [];
  #hasFound = false;
  /** Cleared by a search that has found none. */
  readonly #losingTogether = new Set<T>();

  /** Whether a group of suspects runs apart. */
  get isSearching(): boolean {
    return this.#groups.length > 0;
  }

  mayRun(sequence: T): boolean {
    return this.#groups[0]?.has(sequence) ?? true;
  }

  scheduled(progress: StepProgress<T>): void {
    this.#inFlight.push(progress);
  }

  /**
   * Takes note that the oldest step in flight has been computed.
   *
   * @returns Sequences that it clears; a search that goes on may have them wait.
   */
  committed(): readonly T[] {
    const cleared: T[] = [];
    for (const { sequence, computed } of this.#inFlight.shift() ?? []) {
      const suspicion = this.#suspicions.get(sequence);
      if (suspicion === undefined || computed < suspicion.computed) continue;
      const isSearched = this.#groups[0]?.has(sequence) === true;
      if (isSearched && this.#losingTogether.has(sequence)) continue;
      if (isSearched) this.#cleared.push(sequence);
      this.#clear(sequence);
      cleared.push(sequence);
    }
    return cleared;
  }

  /**
   * Takes note that the device is lost, and with it the steps in flight.
   *
   * @param running Sequences that have not ended.
   * @returns What that tells; undefined where no suspect had rows in flight.
   */
  lost(running: readonly T[]): LossFinding<T> | undefined {
    const rows = this.#rowsInFlight();
    this.#inFlight = [];
    const present = running.filter((sequence) => rows.has(sequence));
    const again = present.filter((sequence) => this.#suspect(sequence, rows.get(sequence)!));
    this.#halve(again);
    this.#removeFromGroups(present.filter((sequence) => !again.includes(sequence)));
    const [only] = again;
    if (only === undefined) return undefined;
    const { losses } = this.#suspicions.get(only)!;
    // Rows of a sequence that has left may have been in flight beside it.
    if (rows.size === 1 && losses >= FEWEST_LOSSES) {
      this.#hasFound = true;
      this.forget(only);
      return { kind: "found", sequence: only, losses };
    }
    const suspects = this.#groups.reduce((sum, group) => sum + group.size, 0);
    return { kind: "searching", suspects };
  }

  /** Takes note that a sequence has ended, in whatever way. */
  forget(sequence: T): void {
    this.#losingTogether.delete(sequence);
    this.#cleared = this.#cleared.filter((one) => one !== sequence);
    this.#clear(sequence);
  }

  #clear(sequence: T): void {
    if (this.#suspicions.delete(sequence)) this.#removeFromGroups([sequence]);
  }

  #rowsInFlight(): ReadonlyMap<T, Rows> {
    const rows = new Map<T, Rows>();
    for (const { sequence, position, computed } of this.#inFlight.flat()) {
      // Those of later steps follow those of earlier ones.
      rows.set(sequence, { position: rows.get(sequence)?.position ?? position, computed });
    }
    return rows;
  }

  /** @returns Whether some of these rows have been in flight at an earlier loss too. */
  #suspect(sequence: T, rows: Rows): boolean {
    const known = this.#suspicions.get(sequence);
    const position = Math.max(known?.position ?? 0, rows.position);
    const computed = Math.min(known?.computed ?? 0, rows.computed);
    if (known === undefined || position >= computed) {
      this.#suspicions.set(sequence, { ...rows, losses: 1 });
      return false;
    }
    this.#suspicions.set(sequence, { position, computed, losses: known.losses + 1 });
    return true;
  }

  #halve(suspects: readonly T[]): void {
    const middle = Math.ceil(suspects.length / 2);
    const halves = [suspects.slice(0, middle), suspects.slice(middle)];
    const rest = this.#groups.map((group) => [...group].filter((one) => !suspects.includes(one)));
    const groups = [...halves, ...rest].filter((group) => group.length > 0);
    this.#groups = groups.map((group) => new Set(group));
  }

  #removeFromGroups(sequences: readonly T[]): void {
    if (!this.isSearching) return;
    for (const group of this.#groups) for (const one of sequences) group.delete(one);
    this.#groups = this.#groups.filter((group) => group.size > 0);
    if (this.isSearching) return;
    if (!this.#hasFound) for (const one of this.#cleared) this.#losingTogether.add(one);
    this.#cleared = [];
    this.#hasFound = false;
  }
}

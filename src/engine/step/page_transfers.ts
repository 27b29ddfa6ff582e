/**
 * The pages that have to move before a step runs, and the order in which they do.
 *
 * Scheduling only notes them; sequences may come, leave and pass their pages on before anything
 * moves. The order is right all the same: first everything is read that pages held before the
 * schedule, then they are overwritten.
 *
 * | order | reads | writes |
 * |---|---|---|
 * | saves | pages that steps have computed | host memory |
 * | copies, as they were noted | the same: never a page that is itself to be copied to or restored | pages of sequences that just began |
 * | restores | host memory | pages of sequences that go on |
 *
 * A page that a later note gives to another owner was given back by the one before, and with it the
 * notes that would have written to it.
 *
 * @module
 */
import type { PageCopy } from "../../cache/page_copier.ts";
import type { PageRestore, PageSave, RetractionMemory } from "../schedule/retraction_memory.ts";

export interface PageTransfers {
  readonly saves: readonly PageSave[];
  readonly copies: readonly PageCopy[];
  readonly restores: readonly PageRestore[];
}

export interface PageMovers {
  /** Present where there are saves and restores. */
  readonly retractionMemory?: RetractionMemory | undefined;
  /** Present where there are copies. */
  readonly copier?: { copy(copies: readonly PageCopy[]): void } | undefined;
}

/** Moves the pages. Sequences may leave meanwhile. */
export async function carryOut(
  { saves, copies, restores }: PageTransfers,
  { retractionMemory, copier }: PageMovers,
): Promise<void> {
  if (saves.length > 0) await retractionMemory!.carrySaves(saves);
  if (copies.length > 0) copier!.copy(copies);
  if (restores.length > 0) await retractionMemory!.carryRestores(restores);
}

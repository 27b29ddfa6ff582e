/**
 * What has become of the rooms of a server: pages that went from one server to the other, how long
 * prompts took with it, and why rooms have failed.
 *
 * @module
 */
/** As metrics name them. */
export const FAILURE_REASONS = ["aborted", "timed_out", "lost", "other_server", "other"] as const;

/**
 * Why a room has failed: its request was aborted or its client left; the other half, or pages, did not
 * come in time; the connection ended; the other server has ended it, where the reason is counted; or
 * something else.
 */
export type FailureReason = (typeof FAILURE_REASONS)[number];

/** How a room has failed. */
export interface RoomFailure {
  readonly problem: string;
  readonly reason: FailureReason;
  /** Whether its pages had been asked for. */
  readonly hasAsked: boolean;
}

export class RoomFigures {
  opened = 0;
  failed = 0;
  /** Of those that failed: before pages were asked for. */
  failedBefore = 0;
  readonly failures: Record<FailureReason, number> = {
    aborted: 0,
    timed_out: 0,
    lost: 0,
    other_server: 0,
    other: 0,
  };
  /** Sent by a prefill server, received by a decode server; bytes as they travel. */
  pages = 0;
  pageBytes = 0;
  /** Prompts whose pages are all in place, and their seconds in all. */
  transfers = 0;
  transferSeconds = 0;
  /** Of the last of them. */
  last: { readonly bytes: number; readonly seconds: number } = { bytes: 0, seconds: 0 };

  ended(failure: RoomFailure | undefined): void {
    if (failure === undefined) return;
    this.failed += 1;
    this.failures[failure.reason] += 1;
    if (!failure.hasAsked) this.failedBefore += 1;
  }
}

/** The pages of one room. */
export class RoomTransfer {
  readonly #figures: RoomFigures;
  #from = 0;
  #bytes = 0;

  constructor(figures: RoomFigures) {
    this.#figures = figures;
  }

  /** Pages are asked for. */
  begin(): void {
    this.#from = performance.now();
  }

  /** A message with pages goes or has come. */
  move(pages: number, bytes: number): void {
    this.#bytes += bytes;
    this.#figures.pages += pages;
    this.#figures.pageBytes += bytes;
  }

  /** All of them are in place. */
  end(): void {
    const seconds = (performance.now() - this.#from) / 1000;
    this.#figures.transfers += 1;
    this.#figures.transferSeconds += seconds;
    this.#figures.last = { bytes: this.#bytes, seconds };
  }
}

/**
 * What can go wrong on the way to a server of files, and how often it is tried again.
 *
 * @module
 */

import { EngineError } from "../errors.ts";

/** A model, or one of its files, that cannot be downloaded. */
export class DownloadError extends EngineError {
  readonly code = "download_failed";
  /** The file and its model, or the model alone. */
  readonly subject: string;

  constructor(subject: string, problem: string, options?: ErrorOptions) {
    super(`Cannot download ${subject}: ${problem}`, options);
    this.subject = subject;
  }
}

/** Something that may go better next time. It leaves a download only as a `DownloadError`. */
export class PassingError extends Error {
  /** Milliseconds that the server asks to be left alone. */
  readonly retryAfter: number | undefined;

  constructor(problem: string, retryAfter?: number, options?: ErrorOptions) {
    super(problem, options);
    this.name = "PassingError";
    this.retryAfter = retryAfter;
  }
}

export interface RetryPolicy {
  /** Tries after the first one, as long as nothing comes. */
  readonly retries: number;
  /** Milliseconds before the first retry; each later one waits twice as long. */
  readonly backoff: number;
  /** Milliseconds at most before a retry, also where the server asks for more. */
  readonly longestWait: number;
  /** Bytes that have to come before the count of tries starts anew. */
  readonly progressBytes: number;
}

export const DEFAULT_RETRY_POLICY: RetryPolicy = {
  retries: 5,
  backoff: 1000,
  longestWait: 120_000,
  progressBytes: 8 * 2 ** 20,
};

export interface RetryOptions {
  /** For messages. */
  readonly subject: string;
  readonly policy: RetryPolicy;
  readonly signal: AbortSignal;
  /** Told before each wait. */
  readonly onRetry?: (sentence: string) => void;
  /** Bytes that are here so far; a transfer that goes on is not given up. */
  readonly position?: () => number;
}

/**
 * Calls `work` until it succeeds, fails for good, or has failed too often in a row.
 *
 * @throws {DownloadError} for the last `PassingError`; everything else passes through.
 */
export async function withRetries<T>(work: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { subject, policy, signal, onRetry, position = () => 0 } = options;
  let failures = 0;
  let mark = position();
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof PassingError)) throw error;
      const now = position();
      if (now - mark >= policy.progressBytes) failures = 0;
      // Also downwards: a file that is begun again must not count as progress for ever.
      mark = failures === 0 ? Math.max(mark, now) : mark;
      if (failures >= policy.retries) {
        const tries = failures === 0 ? "" : `, after ${failures + 1} tries`;
        throw new DownloadError(subject, error.message + tries, { cause: error });
      }
      const wait = waitBefore(failures, error, policy);
      failures += 1;
      const seconds = `${Math.round(wait / 100) / 10} s`;
      onRetry?.(`Trying ${subject} again in ${seconds}: ${error.message}`);
      await sleep(wait, signal);
    }
  }
}

function waitBefore(failures: number, error: PassingError, policy: RetryPolicy): number {
  // Clients that one fault has stopped must not come back all at once.
  const jitter = 0.75 + Math.random() / 2;
  const wait = Math.max(policy.backoff * 2 ** failures * jitter, error.retryAfter ?? 0);
  return Math.min(wait, policy.longestWait);
}

/** Ends early, with the signal's reason, when `signal` is aborted. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    if (signal.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", end);
      resolve();
    }, milliseconds);
    signal.addEventListener("abort", end, { once: true });
  });
}

/** Milliseconds that a Retry-After header asks for: seconds or a date. */
export function readRetryAfter(header: string | null, now = Date.now()): number | undefined {
  if (header === null) return undefined;
  if (/^\d+$/.test(header.trim())) return Number(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

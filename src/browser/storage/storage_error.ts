/**
 * What can go wrong with models in the browser's storage.
 *
 * @module
 */

import { EngineError } from "../../errors.ts";

/** The store cannot do what it is asked for, as it or the model is now. */
export class StorageError extends EngineError {
  readonly code: string = "storage_failed";

  /** @param action Such as "delete org/model". */
  constructor(action: string, problem: string, options?: ErrorOptions) {
    super(`Cannot ${action}: ${problem}`, options);
  }
}

/** A stored model that could make room. */
export interface DeletableModel {
  readonly name: string;
  readonly bytes: number;
}

export interface Room {
  /** Bytes that are still to come. */
  readonly needed: number;
  /**
   * Bytes that the browser still grants this origin; undefined where it does not say, or where a write
   * has failed that they were enough for.
   */
  readonly free: number | undefined;
  /** Other models in the store, the largest first. */
  readonly deletable: readonly DeletableModel[];
}

/** The browser grants no room for a model. What is here of it stays. */
export class StorageFullError extends StorageError {
  override readonly code = "storage_full";
  readonly needed: number;
  /** Undefined where the browser does not say how much, or was wrong. */
  readonly free: number | undefined;
  readonly deletable: readonly DeletableModel[];

  constructor(model: string, { needed, free, deletable }: Room, options?: ErrorOptions) {
    const refused = free === undefined ? "it takes no more" : `${megabytes(free)} are free`;
    const gap = `${megabytes(needed)} more are needed, ${refused}`;
    const names = deletable.map(({ name, bytes }) => `${name} (${megabytes(bytes)})`);
    const hint = names.length > 0 ? `; could be deleted: ${names.join(", ")}` : "";
    super(`store ${model}`, `the browser has no room for it: ${gap}${hint}`, options);
    this.needed = needed;
    this.free = free;
    this.deletable = deletable;
  }
}

/** Whether the browser refused to write for want of room. */
export function isQuotaError(error: unknown): boolean {
  return error instanceof Error && error.name === "QuotaExceededError";
}

function megabytes(bytes: number): string {
  const value = bytes / 1e6;
  return `${value.toFixed(value < 100 ? 1 : 0)} MB`;
}

/**
 * What a text service in another thread is asked, and what it answers: plain data.
 *
 * @module
 */
import type { TextOptions } from "../load/text_model.ts";
import type { ErrorData } from "../remote/error_data.ts";
import type { TextJob } from "./text_jobs.ts";

/** The files of a model that tell of its text, which threads may share. */
export type TextFiles = Readonly<Record<string, Uint8Array<SharedArrayBuffer>>>;

/** A thread is asked to load once, then to do one job after another. Each question has one answer. */
export type TextQuestion =
  | { readonly type: "load"; readonly files: TextFiles; readonly options: TextOptions }
  | RunQuestion;

/** A job as it is, or one of many values as the pieces of its JSON. */
export type RunQuestion =
  | { readonly type: "run"; readonly job: TextJob }
  | { readonly type: "run packed"; readonly json: readonly string[] };

export type TextAnswer =
  | { readonly type: "loaded"; readonly templateVariables: readonly string[] }
  | { readonly type: "tokens"; readonly tokens: Uint32Array<ArrayBuffer> }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "failed"; readonly error: ErrorData };

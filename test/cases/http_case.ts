/**
 * A request and what it is answered, for every way to reach an app.
 *
 * @module
 */
import type { AppOptions } from "../../src/server/app.ts";
import type { ScriptedEngineOptions } from "../support/engines/scripted_engine.ts";

export interface HttpCase {
  readonly name: string;
  /** Default POST, or GET without a body. */
  readonly method?: string;
  readonly path: string;
  /** Beside the Content-Type of JSON, which a body has. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, a string as it is. */
  readonly body?: unknown;
  /** Of the app and its engine. */
  readonly options?: AppOptions & ScriptedEngineOptions;
  readonly status: number;
  /** Part of the answer's JSON. */
  readonly json?: object | readonly object[];
  /** What the answer's text matches. */
  readonly text?: RegExp;
  /** Headers that the answer has. */
  readonly answerHeaders?: Readonly<Record<string, RegExp>>;
}

export const CHAT = "/v1/chat/completions";
export const messages = [{ role: "user", content: "abc" }];
export const script = () => ({ pieces: ["one", " two"] });

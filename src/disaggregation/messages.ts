/**
 * What prefill and decode servers say to each other beside pages, as JSON texts.
 *
 * | who | says | when |
 * |---|---|---|
 * | decode | `hello`, `proof` | it has connected |
 * | prefill | `welcome`, `ready` or `refused` | the same |
 * | decode | `open` | it has read a prompt |
 * | decode | `want` | the prompt has a place: the prefill server's pages from `first` on are asked for |
 * | decode | `taken` | the oldest message with pages is in place |
 * | decode | `done` | it has all of the prompt already |
 * | decode | `leave` | the request has ended, or cannot go on |
 * | prefill | `moved` | the request is with a replica that is met elsewhere: the room is opened there |
 * | prefill | `logprobs`, `end` | the prompt is computed and all pages are sent |
 * | prefill | `failed` | the request has ended, or cannot go on |
 * | both | `beat` | nothing else is to be said |
 *
 * A lease is the number that a decode server gives a room, once on each connection: what is said of
 * an earlier one is nothing.
 *
 * @module
 */
import type { PageLayout } from "../cache/page_header.ts";
import { TransferError } from "../errors.ts";
import type { PromptLogprobs } from "../logprobs.ts";
import { MAX_CONTROL_BYTES, MAX_ROOM_NAME } from "./limits.ts";

export const PROTOCOL_VERSION = 5;

export type DecodeMessage =
  | {
      readonly type: "hello";
      readonly version: number;
      readonly nonce: string;
      /** Id of a ticket, whose secret it knows in place of the key. */
      readonly ticket?: string | undefined;
    }
  | {
      readonly type: "proof";
      readonly proof: string;
      /** Of its pages as one rank would have them. */
      readonly layout: PageLayout;
      /** Ranks that share them. */
      readonly ranks: number;
      /** Another way by which it takes pages; empty where there is none. */
      readonly offer: string;
    }
  | {
      readonly type: "open";
      readonly lease: number;
      readonly room: string;
      /** Of the prompt, by `promptDigest`. */
      readonly digest: string;
    }
  | { readonly type: "want"; readonly lease: number; readonly first: number }
  | { readonly type: "taken"; readonly lease: number }
  | { readonly type: "done"; readonly lease: number }
  | { readonly type: "leave"; readonly lease: number; readonly problem: string }
  | { readonly type: "beat" };

export type PrefillMessage =
  | {
      readonly type: "welcome";
      readonly version: number;
      readonly nonce: string;
      readonly proof: string;
    }
  /**
   * `isWhole`: pages come as one rank would have them, not those of all ranks one by one. `pageSize`: of
   * them. `way`: by which they come; empty for that of all messages. `hasReplicas`: whether rooms are
   * opened here only to be told which replica has them.
   */
  | {
      readonly type: "ready";
      readonly isWhole: boolean;
      readonly pageSize: number;
      readonly way: string;
      readonly hasReplicas: boolean;
    }
  /** `port`: where the replica is met, on the same host. */
  | { readonly type: "moved"; readonly lease: number; readonly port: number }
  | { readonly type: "refused"; readonly problem: string }
  | { readonly type: "logprobs"; readonly lease: number; readonly entries: PromptLogprobs[] }
  | { readonly type: "end"; readonly lease: number; readonly cachedTokens: number }
  | { readonly type: "failed"; readonly lease: number; readonly problem: string }
  | { readonly type: "beat" };

type Kind = "boolean" | "count" | "text" | "maybe text" | "room" | "object" | "list";

/** The fields of each message. */
export type MessageFields = Readonly<Record<string, Readonly<Record<string, Kind>>>>;

const FIELDS: MessageFields = {
  hello: { version: "count", nonce: "text", ticket: "maybe text" },
  proof: { proof: "text", layout: "object", ranks: "count", offer: "text" },
  open: { lease: "count", room: "room", digest: "text" },
  want: { lease: "count", first: "count" },
  taken: { lease: "count" },
  done: { lease: "count" },
  leave: { lease: "count", problem: "text" },
  welcome: { version: "count", nonce: "text", proof: "text" },
  ready: { isWhole: "boolean", pageSize: "count", way: "text", hasReplicas: "boolean" },
  moved: { lease: "count", port: "count" },
  refused: { problem: "text" },
  logprobs: { lease: "count", entries: "list" },
  end: { lease: "count", cachedTokens: "count" },
  failed: { lease: "count", problem: "text" },
  beat: {},
};

/** UTF-16 units of other texts. */
const MAX_TEXT = 8192;

const isText = (value: unknown) => typeof value === "string" && value.length <= MAX_TEXT;

const IS_KIND: Readonly<Record<Kind, (value: unknown) => boolean>> = {
  boolean: (value) => typeof value === "boolean",
  count: (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  text: isText,
  "maybe text": (value) => value === undefined || isText(value),
  room: (value) => typeof value === "string" && value.length <= MAX_ROOM_NAME,
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  list: (value) => Array.isArray(value),
};

/**
 * @param types Messages that the other side may send.
 * @param fields Of each message. Default: those of prefill and decode servers.
 * @throws {TransferError} for what is no such message.
 */
export function parseMessage<T extends { readonly type: string }>(
  text: string,
  types: readonly T["type"][],
  fields: MessageFields = FIELDS,
): T {
  if (text.length > MAX_CONTROL_BYTES) refuse("size", `it has ${text.length} characters`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new TransferError("a message", "text", "it is not JSON", { cause });
  }
  if (!IS_KIND.object(value)) refuse("text", "it is no object");
  const message = value as Readonly<Record<string, unknown>>;
  const { type } = message;
  if (!types.includes(type as T["type"])) refuse("type", `it is ${JSON.stringify(type)}`);
  for (const [name, kind] of Object.entries(fields[type as string]!)) {
    if (!IS_KIND[kind](message[name])) refuse(name, `it is no ${kind}`);
  }
  return message as unknown as T;
}

function refuse(field: string, problem: string): never {
  throw new TransferError("a message", field, problem);
}

/** A text that fits a message. */
export function shortened(problem: string): string {
  return problem.slice(0, MAX_TEXT);
}

/**
 * Chunks as they cross a port: log-probabilities in the form in which they are held, not as the objects
 * that are made of them when they are looked at.
 *
 * @module
 */
import type { GenerationChunk } from "../../generation.ts";
import { HeldLogprobs, type PackedLogprobs } from "../sample/held_logprobs.ts";

/** Those of an embedding, of a prompt's first token and of other engines stay as they are. */
type Packed<Entry> = Entry | PackedLogprobs;

type Lists = Required<Pick<GenerationChunk, "logprobs" | "promptLogprobs">>;

export interface PackedChunk extends Omit<GenerationChunk, keyof Lists> {
  readonly logprobs?: readonly Packed<Lists["logprobs"][number]>[];
  readonly promptLogprobs?: readonly Packed<Lists["promptLogprobs"][number]>[];
}

/** Plain data that is the chunk once it is unpacked. */
export function packChunk(chunk: GenerationChunk): PackedChunk {
  const { logprobs, promptLogprobs, ...others } = chunk;
  return {
    ...others,
    ...(logprobs !== undefined && { logprobs: logprobs.map(pack) }),
    ...(promptLogprobs !== undefined && { promptLogprobs: promptLogprobs.map(pack) }),
  };
}

export function unpackChunk(packed: PackedChunk): GenerationChunk {
  const { logprobs, promptLogprobs, ...others } = packed;
  return {
    ...others,
    ...(logprobs !== undefined && { logprobs: logprobs.map(unpack) }),
    ...(promptLogprobs !== undefined && { promptLogprobs: promptLogprobs.map(unpack) }),
  };
}

function pack<Entry extends object>(entry: Entry): Packed<Entry> {
  return entry instanceof HeldLogprobs ? entry.pack() : entry;
}

function unpack<Entry extends object>(packed: Packed<Entry>): Entry | HeldLogprobs {
  return "held" in packed ? HeldLogprobs.unpack(packed) : packed;
}

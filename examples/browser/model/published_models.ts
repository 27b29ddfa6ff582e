/**
 * Small chat models that are published under licences which let every visitor have them
 * (Apache-2.0).
 *
 * Sizes stand here so that the list can be shown without asking any hub; a test holds them to what
 * `inspectCheckpoint` says.
 *
 * @module
 */
import type { Sizes } from "./fit.ts";

export interface PublishedModel {
  readonly id: string;
  readonly about: string;
  /** About: of the weights and the tokenizer. */
  readonly downloadBytes: number;
  readonly sizes: Sizes;
}

export const PUBLISHED: readonly PublishedModel[] = [
  {
    id: "Qwen/Qwen3-0.6B",
    about: "thinks, calls tools",
    downloadBytes: 1.52e9,
    sizes: {
      weights: { published: 1_503_395_840, int8: 926_035_968, int4: 646_668_288 },
      cacheBytesPerToken: 114_688,
    },
  },
  {
    id: "Qwen/Qwen2.5-0.5B-Instruct",
    about: "short answers, calls tools",
    downloadBytes: 0.999e9,
    sizes: {
      weights: { published: 1_260_477_952, int8: 781_953_024, int4: 550_408_704 },
      cacheBytesPerToken: 12_288,
    },
  },
  {
    id: "Qwen/Qwen2.5-1.5B-Instruct",
    about: "calls tools",
    downloadBytes: 3.1e9,
    sizes: {
      weights: { published: 3_554_465_792, int8: 2_059_132_928, int4: 1_335_584_768 },
      cacheBytesPerToken: 28_672,
    },
  },
  {
    id: "Qwen/Qwen3-1.7B",
    about: "thinks, calls tools",
    downloadBytes: 4.08e9,
    sizes: {
      weights: { published: 4_063_727_616, int8: 2_397_040_640, int4: 1_590_579_200 },
      cacheBytesPerToken: 114_688,
    },
  },
];

/**
 * Names of attention backends: the engine's own, and those that servers on other accelerators have,
 * each of which means one of ours.
 *
 * @module
 */
import {
  ATTENTION_BACKENDS,
  type AttentionBackend,
} from "../../layers/attention/attention_backend.ts";

/** Fast kernels of other accelerators: the fastest that this adapter has. */
const FAST = ["fa3", "flashinfer", "flashmla", "cutlass_mla", "trtllm_mla", "triton", "aiter"];
/** What runs everywhere. */
const PLAIN = ["torch_native"];

export const ATTENTION_BACKEND_NAMES: readonly string[] = [
  ...ATTENTION_BACKENDS,
  ...FAST,
  ...PLAIN,
];

/** Cached prefixes are taken in chunks by these, and by our own; the default is one of them. */
const CHUNKS_PREFIXES = ["fa3", ...ATTENTION_BACKENDS] as readonly string[];

export interface AttentionBackendOptions {
  readonly attentionBackend: string | undefined;
  readonly prefillAttentionBackend: string | undefined;
  readonly decodeAttentionBackend: string | undefined;
}

export interface ChosenAttention {
  readonly prefillAttentionBackend: AttentionBackend;
  readonly decodeAttentionBackend: AttentionBackend;
  /** Whether the backend of prompts takes long cached prefixes in chunks. */
  readonly chunkedPrefix: boolean;
  /** What names became that are not ours, one sentence each. */
  readonly sentences: readonly string[];
}

/** The backends of both phases; the option of one phase wins over that of both. */
export function chooseAttention(options: AttentionBackendOptions): ChosenAttention {
  const { attentionBackend: both = "auto" } = options;
  const { prefillAttentionBackend: prefill = both, decodeAttentionBackend: decode = both } =
    options;
  const chunkedPrefix = CHUNKS_PREFIXES.includes(prefill);
  const foreign = [...new Set([prefill, decode])].filter((name) => ownName(name) !== name);
  return {
    prefillAttentionBackend: ownName(prefill),
    decodeAttentionBackend: ownName(decode),
    chunkedPrefix,
    sentences: [
      ...foreign.map((name) => `Attention backend ${name}: it is ${ownName(name)} here`),
      ...(chunkedPrefix ? [] : [`Attention backend ${prefill} takes cached prefixes in one piece`]),
    ],
  };
}

function ownName(name: string): AttentionBackend {
  const own = ATTENTION_BACKENDS.find((known) => known === name);
  return own ?? (PLAIN.includes(name) ? "portable" : "auto");
}

/**
 * Options that choose the kernels of attention.
 *
 * @module
 */
import { ATTENTION_BACKEND_NAMES } from "./attention_backend.ts";
import type { OptionTable } from "./option_parser.ts";

const group = "Model";

export const ATTENTION_OPTIONS = {
  attentionBackend: {
    flags: ["--attention-backend"],
    kind: "string",
    choices: ATTENTION_BACKEND_NAMES,
    value: "NAME",
    defaultText: "auto",
    help:
      "how attention kernels share what they read: subgroup in registers, portable through workgroup " +
      "memory, auto the first where the adapter can. Other servers' names: fa3, flashinfer, flashmla, " +
      "cutlass_mla, trtllm_mla, triton and aiter mean auto, torch_native portable; with these but fa3 " +
      "cached prefixes are taken in one piece",
    group,
  },
  prefillAttentionBackend: {
    flags: ["--prefill-attention-backend"],
    kind: "string",
    choices: ATTENTION_BACKEND_NAMES,
    value: "NAME",
    defaultText: "--attention-backend",
    help: "the same for prompts only",
    group,
  },
  decodeAttentionBackend: {
    flags: ["--decode-attention-backend"],
    kind: "string",
    choices: ATTENTION_BACKEND_NAMES,
    value: "NAME",
    defaultText: "--attention-backend",
    help: "the same for generated tokens only",
    group,
  },
} as const satisfies OptionTable;

/**
 * What attention backends allow drafts to be, by the names that servers on other accelerators have.
 *
 * @module
 */
import { UnsupportedError } from "../errors.ts";

/** The backends as they were asked for. */
export interface AskedBackends {
  readonly prefillAttentionBackend: string;
  readonly decodeAttentionBackend: string;
}

/** With these a step has no drafts. */
const WITHOUT_DRAFTS: readonly string[] = ["cutlass_mla"];
/** With these drafts are a chain. */
const CHAINS_ONLY: readonly string[] = ["fa3", "flashinfer", "flashmla", "trtllm_mla"];

/** @throws {UnsupportedError} naming a backend that does not go with drafts. */
export function requireBackends(asked: AskedBackends): void {
  const backend = find(asked, WITHOUT_DRAFTS);
  if (backend === undefined) return;
  throw new UnsupportedError(
    "speculative decoding",
    `it does not go with attention backend ${backend}`,
    { field: "speculativeAlgorithm" },
  );
}

/** A backend with which drafts have to be a chain, if one of them is such. */
export function topkOneBackend(asked: AskedBackends): string | undefined {
  return find(asked, CHAINS_ONLY);
}

/** Prompts and drafted rows are one backend's, generated rows the other's; both have to agree. */
function find(asked: AskedBackends, names: readonly string[]): string | undefined {
  const { prefillAttentionBackend: prefill, decodeAttentionBackend: decode } = asked;
  return [decode, prefill].find((name) => names.includes(name));
}

/**
 * How the invocations of attention kernels share what they read: chosen for each phase, the same
 * bits whatever is chosen.
 *
 * @module
 */
import { FEWEST_LANES } from "../../../kernels/attention/exchange.ts";
import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import { DeviceError } from "../../errors.ts";

/**
 * `subgroup`: in the registers of a subgroup. `portable`: through workgroup memory, on any adapter.
 * `auto`: the first where the adapter has subgroups of one known size, 8 or more, that pass the self-test,
 * and its tuning does not say otherwise.
 */
export const ATTENTION_BACKENDS = ["auto", "subgroup", "portable"] as const;
export type AttentionBackend = (typeof ATTENTION_BACKENDS)[number];

/** By phase. */
export interface AttentionBackends {
  readonly prefill: AttentionBackend;
  readonly decode: AttentionBackend;
}

export const DEFAULT_BACKENDS: AttentionBackends = { prefill: "auto", decode: "auto" };

/**
 * The subgroup size that attention kernels are bound with; undefined for the portable ones.
 *
 * @throws {DeviceError} when the adapter lacks what the backend needs.
 */
export function attentionSubgroupSize(
  backend: AttentionBackend,
  { subgroupSize, tuning }: Pick<LinearLayout, "subgroupSize" | "tuning">,
): number | undefined {
  if (backend === "portable") return undefined;
  if (backend === "subgroup" && (subgroupSize ?? 0) < FEWEST_LANES) {
    throw new DeviceError(
      "Cannot use attention backend subgroup: this adapter has no subgroups of one known size, " +
        `${FEWEST_LANES} or more, that work`,
    );
  }
  if (backend === "auto" && tuning?.attention?.subgroups === false) return undefined;
  return subgroupSize;
}

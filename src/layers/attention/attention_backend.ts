/**
 * How the invocations of attention kernels share what they read: chosen for each phase, the same
 * bits whatever is chosen.
 *
 * @module
 */
import { type ExchangeOptions, FEWEST_LANES } from "../../../kernels/attention/exchange.ts";
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

type AttentionLayout = Pick<LinearLayout, "subgroupSize" | "askedSubgroupSize" | "tuning">;

/**
 * The subgroup sizes that attention kernels are bound with; none for the portable ones.
 *
 * @throws {DeviceError} when the adapter lacks what the backend needs.
 */
export function attentionSubgroups(
  backend: AttentionBackend,
  { subgroupSize, askedSubgroupSize, tuning }: AttentionLayout,
): Pick<ExchangeOptions, "subgroupSize" | "askedSubgroupSize"> {
  if (backend === "portable") return {};
  const most = askedSubgroupSize ?? subgroupSize ?? 0;
  if (backend === "subgroup" && most < FEWEST_LANES) {
    throw new DeviceError(
      "Cannot use attention backend subgroup: this adapter has no subgroups of a known size, " +
        `${FEWEST_LANES} or more, that work`,
    );
  }
  if (backend === "auto" && tuning?.attention?.subgroups === false) return {};
  return { subgroupSize, askedSubgroupSize };
}

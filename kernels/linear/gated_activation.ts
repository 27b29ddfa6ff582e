/**
 * What a gated MLP makes of a gate and an up value.
 *
 * @module
 */

/**
 * `silu`: `silu(gate) * up`. `clamped`: `(u + 1) * g * sigmoid(alpha * g)` of `g = min(gate, limit)`
 * and `u = clamp(up, -limit, limit)`.
 */
export type GatedActivation =
  | { readonly kind: "silu" }
  | { readonly kind: "clamped"; readonly alpha: number; readonly limit: number };

export const SILU: GatedActivation = { kind: "silu" };

/** The fields of `Params` that gated.wgsl reads. */
export function activationParams(activation: GatedActivation): {
  readonly alpha: number;
  readonly limit: number;
} {
  const { alpha, limit } = activation.kind === "silu" ? { alpha: 0, limit: 0 } : activation;
  return { alpha, limit };
}

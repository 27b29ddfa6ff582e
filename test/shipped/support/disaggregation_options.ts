/**
 * Tests of the options of servers that share requests; what they do is in disaggregation.test.ts.
 *
 * @module
 */
import { expect } from "vitest";
import type { ServingWisp } from "./wisp.ts";

/** @param second Of `secondArguments`. */
export function disaggregationTests(
  second: () => ServingWisp,
  refusedAtStart: (...args: readonly string[]) => Promise<void>,
) {
  const echoed = async (name: string, value: unknown) => {
    const info = await (await second().get("/get_server_info")).json();
    expect((info as Readonly<Record<string, unknown>>)[name]).toEqual(value);
  };
  return {
    disaggregationMode: () => refusedAtStart("--disaggregation-mode", "both"),
    disaggregationBootstrapPort: () => echoed("disaggregation_bootstrap_port", 8997),
    disaggregationTransferBackend: () =>
      refusedAtStart("--disaggregation-transfer-backend", "nixl"),
    disaggregationIbDevice: () =>
      refusedAtStart("--disaggregation-mode=decode", "--disaggregation-ib-device", "none0"),
    disaggregationKey: () => echoed("disaggregation_key", undefined),
    disaggregationPrefillHosts: () =>
      refusedAtStart("--disaggregation-mode=decode", "--disaggregation-prefill-hosts", "10.0.0.1"),
    disaggregationBootstrapTimeout: () => echoed("disaggregation_bootstrap_timeout", 7),
    disaggregationWaitingTimeout: () => echoed("disaggregation_waiting_timeout", 8),
    disaggregationHeartbeatInterval: () => echoed("disaggregation_heartbeat_interval", 9),
    numReservedDecodeTokens: () => echoed("num_reserved_decode_tokens", 10),
  };
}

/**
 * Whether pages can go by UCX on this machine.
 *
 * @module
 */
import { buildUcxShim } from "../../src/node/ucx/build_ucx_shim.ts";

/** What is missing. */
export function lackOfUcx(): string | undefined {
  try {
    buildUcxShim();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * UCX as it gets along with Node: its handlers of signals and of memory would be in V8's way.
 *
 * @module
 */

const VARIABLES = {
  UCX_ERROR_SIGNALS: "",
  UCX_MEM_EVENTS: "n",
  UCX_WARN_UNUSED_ENV_VARS: "n",
} as const;

/** To be called before a library is loaded that uses UCX, which reads them then. */
export function tameUcx(env: NodeJS.ProcessEnv): void {
  for (const [name, value] of Object.entries(VARIABLES)) env[name] ??= value;
}

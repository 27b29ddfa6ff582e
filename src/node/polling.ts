/**
 * Throttles how Dawn polls for finished GPU work inside Node.
 *
 * While a promise of WebGPU is pending, Dawn's Node binding calls itself again through the global
 * `setImmediate`, which keeps one core busy: on a CPU adapter that core is missing from the
 * shaders. It looks the function up at every call, so replacing the global is enough. Only native
 * callbacks are delayed; JavaScript's own calls pass through.
 *
 * @module
 */

/** Turns of the event loop before the first sleep: enough for work that is nearly done. */
const SPIN_TURNS = 100;
/** A pause longer than this between two polls means that a new wait began. */
const NEW_WAIT_MS = 4;
const SLEEP_MS = 1;

const NATIVE = /\[native code\]/;
const INSTALLED = Symbol.for("wisp.throttledPolling");

type AnyFunction = (...args: unknown[]) => void;

/** Installs the throttle once per process. Call it before the first request of an adapter. */
export function throttlePolling(): void {
  const original = globalThis.setImmediate;
  if (INSTALLED in original) return;
  let turns = 0;
  let last = 0;

  const throttled = (callback: AnyFunction, ...args: unknown[]): unknown => {
    if (!NATIVE.test(Function.prototype.toString.call(callback))) {
      return original(callback, ...args);
    }
    const now = performance.now();
    if (now - last > NEW_WAIT_MS) turns = 0;
    last = now;
    turns += 1;
    return turns > SPIN_TURNS
      ? setTimeout(callback, SLEEP_MS, ...args)
      : original(callback, ...args);
  };
  // Keeps util.promisify(setImmediate) working.
  Object.defineProperties(throttled, Object.getOwnPropertyDescriptors(original));
  Object.defineProperty(throttled, INSTALLED, { value: true });
  globalThis.setImmediate = throttled as typeof globalThis.setImmediate;
}

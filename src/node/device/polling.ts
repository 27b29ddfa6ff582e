/**
 * Throttles how Dawn polls for finished GPU work inside Node.
 *
 * While a promise of WebGPU is pending, Dawn's Node binding calls itself again through the global
 * `setImmediate`, which keeps one core busy: on a CPU adapter that core is missing from the
 * shaders. It looks the function up at every call, so replacing the global is enough. Only the
 * binding's own callbacks are delayed; all others pass through.
 *
 * | time since the wait began | polls |
 * |---|---|
 * | `[0, spinMs)` | without a pause |
 * | `[spinMs, NAPPING_MS)` | after a nap of the whole thread: far shorter than a timer can be |
 * | `[NAPPING_MS, ...)` | after a timer of a millisecond, so that a long wait leaves the thread free |
 *
 * A wait begins when one of `WAITING_METHODS` is called, which also ends a pause that an earlier
 * wait is in: the binding has one polling chain for all waits.
 *
 * @module
 */

/** Milliseconds of polling without a pause where the shaders need the core themselves. */
const SPIN_ON_CPU_MS = 0;
/** The same where a step of a model takes a few milliseconds on a GPU of its own. */
const SPIN_ON_GPU_MS = 3;
const NAPPING_MS = 8;
const NAP_MS = 0.05;
const PAUSE_MS = 1;
/** Longer than polls are ever apart. */
const SETTLED_MS = 5 * PAUSE_MS;

/** Never notified: waiting for it is a sleep. */
const pillow = new Int32Array(new SharedArrayBuffer(4));

const WAITING_METHODS: readonly (readonly [className: string, method: string])[] = [
  ["GPUBuffer", "mapAsync"],
  ["GPUQueue", "onSubmittedWorkDone"],
  ["GPUDevice", "popErrorScope"],
];

type AnyFunction = (...args: unknown[]) => unknown;

interface Throttle {
  spinMs: number;
  waitStarted: number;
  /** Polls that there have been. */
  polls: number;
  /** Polls that wait for their timers: one for each copy of Dawn in use. */
  readonly paused: Map<NodeJS.Timeout, () => void>;
  readonly watched: WeakSet<object>;
}

/** On the global object: the function it replaces is the process's, not this module's. */
const shared = globalThis as { wispPolling?: Throttle };

/**
 * Installs the throttle, once per process, and lets it see the waits of one copy of Dawn. Call it
 * before that copy's first request of an adapter.
 *
 * @param globals The WebGPU classes of that copy.
 */
export function throttlePolling(globals: object): void {
  shared.wispPolling ??= install();
  watch(globals, shared.wispPolling);
}

/** Chooses how long to poll without a pause, once the adapter is known. */
export function tunePolling(adapter: { readonly isCpu: boolean }): void {
  if (shared.wispPolling === undefined) return;
  shared.wispPolling.spinMs = adapter.isCpu ? SPIN_ON_CPU_MS : SPIN_ON_GPU_MS;
}

/** Resolves once no promise of WebGPU is pending in this thread: Dawn does not poll any more. */
export async function settledPolls(): Promise<void> {
  const throttle = shared.wispPolling;
  if (throttle === undefined) return;
  for (let before = -1; before !== throttle.polls || throttle.paused.size > 0; ) {
    before = throttle.polls;
    await new Promise((resolve) => setTimeout(resolve, SETTLED_MS));
    // A thread that was held up comes to its timers first: polls that are due come before this.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function install(): Throttle {
  const original = globalThis.setImmediate as unknown as AnyFunction;
  const throttle: Throttle = {
    spinMs: SPIN_ON_CPU_MS,
    waitStarted: 0,
    polls: 0,
    paused: new Map(),
    watched: new WeakSet(),
  };
  const throttled = (callback: AnyFunction, ...args: unknown[]): unknown => {
    if (!isNativePoll(callback)) return original(callback, ...args);
    throttle.polls += 1;
    const waited = performance.now() - throttle.waitStarted;
    if (waited < throttle.spinMs) return original(callback, ...args);
    if (waited < NAPPING_MS) {
      Atomics.wait(pillow, 0, 0, NAP_MS);
      return original(callback, ...args);
    }
    const timer = setTimeout(() => {
      throttle.paused.delete(timer);
      callback(...args);
    }, PAUSE_MS);
    throttle.paused.set(timer, () => original(callback, ...args));
    return timer;
  };
  // Keeps util.promisify(setImmediate) working.
  Object.defineProperties(throttled, Object.getOwnPropertyDescriptors(original));
  globalThis.setImmediate = throttled as unknown as typeof globalThis.setImmediate;
  return throttle;
}

/** Bound functions and the resolvers of promises are native too, but have no `prototype`. */
function isNativePoll(callback: AnyFunction): boolean {
  if (!Object.hasOwn(callback, "prototype")) return false;
  return Function.prototype.toString.call(callback).includes("[native code]");
}

function watch(globals: object, throttle: Throttle): void {
  for (const [className, method] of WAITING_METHODS) {
    const { prototype } = (globals as Record<string, { readonly prototype: object }>)[className]!;
    const methods = prototype as Record<string, AnyFunction>;
    const original = methods[method]!;
    if (throttle.watched.has(original)) continue;
    const watched = function (this: unknown, ...args: unknown[]): unknown {
      startWait(throttle);
      return original.apply(this, args);
    };
    throttle.watched.add(watched);
    methods[method] = watched;
  }
}

function startWait(throttle: Throttle): void {
  throttle.waitStarted = performance.now();
  for (const [timer, pollNow] of throttle.paused) {
    clearTimeout(timer);
    pollNow();
  }
  throttle.paused.clear();
}

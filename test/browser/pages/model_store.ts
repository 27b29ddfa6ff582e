/**
 * A page with the model store, on the page and in a worker, for a test that drives it.
 *
 * @module
 */
import { type StoreCalls, storeCalls } from "./model_store_calls.ts";

export interface StorePage {
  readonly onPage: StoreCalls;
  /** The same calls in a worker. */
  readonly inWorker: StoreCalls;
  /** Ends the worker in whatever it does, and starts another. */
  restartWorker(): void;
}

const answers = new Map<number, (value: unknown) => void>();
let worker = startWorker();
let count = 0;

function startWorker(): Worker {
  const started = new Worker(new URL("./model_store_worker.ts", import.meta.url), {
    type: "module",
  });
  started.onerror = ({ message }) => reportError(new Error(`The worker failed: ${message}`));
  started.onmessage = ({ data: { id, value } }) => answers.get(id)?.(value);
  return started;
}

const inWorker = new Proxy({} as StoreCalls, {
  get: (_, name) =>
    name === "then" ? undefined : (...args: readonly unknown[]) => ask(name, args),
});

function ask(name: string | symbol, args: readonly unknown[]): Promise<unknown> {
  count += 1;
  const id = count;
  worker.postMessage({ id, name, args });
  return new Promise((resolve) => answers.set(id, resolve));
}

const input = document.createElement("input");
Object.assign(input, { type: "file", multiple: true, webkitdirectory: true });
document.body.append(input);

const page: StorePage = {
  onPage: await storeCalls(),
  inWorker,
  restartWorker() {
    worker.terminate();
    worker = startWorker();
  },
};
Object.assign(globalThis, { storePage: page });

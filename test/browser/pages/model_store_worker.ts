/**
 * The model store in a worker.
 *
 * @module
 */
import { storeCalls } from "./model_store_calls.ts";

const calls = storeCalls();

self.onmessage = async ({ data: { id, name, args } }) => {
  const call = (await calls)[name as "list"] as (...args: readonly unknown[]) => Promise<unknown>;
  self.postMessage({ id, value: await call(...args) });
};

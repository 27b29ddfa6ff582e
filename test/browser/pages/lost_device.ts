/**
 * A page whose engine answers the same request twice, in a worker: once in peace, and once while
 * the test that has opened the page ends the browser's GPU process, as soon as the title says
 * "answering".
 *
 * @module
 */
import { loadWorkerEngine } from "../../../src/browser/worker/worker_engine.ts";
import type { RecoveryEvent } from "../../../src/engine/engine_options.ts";
import { reporting } from "./report.ts";

export interface LostDevice {
  /** Tokens without the loss, and with it. */
  readonly want: readonly number[];
  readonly got: readonly number[];
  readonly events: readonly RecoveryEvent[];
  readonly recoveries: number;
}

const REQUEST = {
  messages: [{ role: "user", content: "Tell me a story." }],
  sampling: { maxNewTokens: 200, ignoreEos: true, seed: 4 },
} as const;

await reporting(async (): Promise<LostDevice> => {
  const events: RecoveryEvent[] = [];
  const url = new URL("model/", location.href).href;
  const engine = await loadWorkerEngine(
    { kind: "url", url },
    {
      contextLength: 512,
      maxRunningRequests: 1,
      onRecovery: (event) => {
        if (event.kind !== "progress") events.push(event);
      },
    },
  );
  const answer = async (onTokens: (count: number) => void) => {
    const answered: number[] = [];
    for await (const { tokens } of engine.generate(REQUEST)) {
      answered.push(...tokens);
      onTokens(answered.length);
    }
    return answered;
  };
  const want = await answer(() => {});
  const got = await answer((count) => {
    if (count >= 3) document.title = "answering";
  });
  const { recoveries } = engine.status();
  await engine.close();
  return { want, got, events, recoveries };
});

/**
 * An engine that has nothing to compute: one chunk a turn of the event loop.
 *
 * @module
 */
import { ScriptedEngine } from "../../test/support/engines/scripted_engine.ts";

export const CHUNKS = 2000;

export function instantEngine(): ScriptedEngine {
  const pieces = Array.from({ length: CHUNKS }, (_, i) => ` ${i}`);
  const turn = new MessageChannel();
  const gate = () =>
    new Promise<void>((resolve) => {
      turn.port1.onmessage = () => resolve();
      turn.port2.postMessage(undefined);
    });
  return new ScriptedEngine({ script: () => ({ pieces, gate }) });
}

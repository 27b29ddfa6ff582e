/**
 * A scripted engine whose status says what a test has it say.
 *
 * @module
 */
import type { EngineStatus } from "../../../src/generation.ts";
import { ScriptedEngine } from "./scripted_engine.ts";

export class ToldEngine extends ScriptedEngine {
  told: Partial<EngineStatus> = {};
  closed = 0;

  override status(): EngineStatus {
    return { ...super.status(), ...this.told };
  }

  override async close(): Promise<void> {
    this.closed += 1;
  }
}

/** What waits until a test opens it. */
export function openGate() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

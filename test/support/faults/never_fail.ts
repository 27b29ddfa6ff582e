/**
 * Awaits that no test has fail, as they cannot.
 *
 * @module
 */

/** They wait for what is resolved or catches whatever fails in it. */
export const NEVER_FAIL: readonly string[] = [
  ...[
    ...["await Promise.resolve();", "await this.#runSteps();"],
    ...["await inFlight.drain();", "await inFlight.drain(); (2)"],
    ...["if (!(await model.isLost())) throw error;", "if (await model.isLost()) return;"],
    "while (pages.borrowerCount > 0 || travelling?.isWriting) await this.#news.wait();",
  ].map((line) => `src/engine/step/step_loop.ts: ${line}`),
  // How a device was lost, or that it was not after a while.
  "src/engine/load/load.ts: const loss = await lossOf(device);",
  "src/engine/load/recovery.ts: if (!this.#closing.signal.aborted) await Promise.race(lossesOf(this.#current).map(lossOf));",
  ...["engine.ts", "load/recovery.ts", "ranks/follow_steps.ts"].flatMap((file) => [
    `src/engine/${file}: await source.close?.().catch(() => {});`,
    `src/engine/${file}: await options.draftModel?.close?.().catch(() => {});`,
  ]),
  "src/engine/remote/serve_engine.ts: await Promise.all([...this.#running.values()].map(({ done }) => done));",
  "src/engine/remote/serve_engine.ts: await Promise.all(begun);",
  "src/engine/step/steps_in_flight.ts: await Promise.allSettled(left.map(({ tokens }) => tokens));",
  // The turn of others in the thread of grammars, which ends with it.
  "src/engine/grammar/lookout.ts: await this.#othersTurn();",
  "src/engine/grammar/local_grammar_service.ts: await this.#options.othersTurn();",
  // Whether a device is lost, and that another is there: neither tells of a failure.
  "src/engine/images/image_reader.ts: if (!(await this.#device.isLost())) throw error;",
  "src/engine/images/image_reader.ts: await this.#device.settled();",
  "src/engine/load/recovery.ts: if (this.isRecovering) await new Promise<void>((resolve) => this.#onSettled.push(resolve));",
  // What this app has written itself.
  "src/server/messages/messages_errors.ts: const { message } = (await context.res.json()) as { readonly message: string };",
];

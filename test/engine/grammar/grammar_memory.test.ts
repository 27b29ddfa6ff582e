import { expect, test } from "vitest";
import type { GrammarCall } from "../../../src/engine/grammar/grammar_messages.ts";
import type { GrammarModel, GrammarSession } from "../../../src/engine/grammar/grammar_service.ts";
import { localGrammarService } from "../../../src/engine/grammar/local_grammar_service.ts";
import { RemoteGrammarService } from "../../../src/engine/grammar/remote_grammar_service.ts";
import { CapacityError, WorkerError } from "../../../src/errors.ts";
import type { Constraint } from "../../../src/grammar/grammar.ts";
import { byteTokens, END } from "../../support/engines/heavy_grammar.ts";

const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
const model: GrammarModel = {
  tokens: {
    size: 258,
    bytes: (id) => bytes[id - 2] ?? new Uint8Array(0),
    isSpecial: (id) => id < 2,
  },
  endTokens: [END],
  vocabularySize: 258,
};
/** About 1 MB of automaton, another one for each letter. */
const large = (letter: string): Constraint => ({
  kind: "regex",
  source: Array.from({ length: 1500 }, (_, i) => `${letter}${(i * 7919).toString(36)}end`).join(
    "|",
  ),
});

test("grammars of sessions are held up to a limit, one of several sessions once, until they close", async () => {
  const alone = localGrammarService(model);
  const most = 4 * 2 ** 20;
  const service = localGrammarService(model, { maxHeldBytes: most });
  const sessions: GrammarSession[] = [];
  let refusal: unknown;
  for (let i = 0; refusal === undefined && i < 26; i++) {
    const constraint = large(String.fromCharCode(97 + i));
    await service.open(constraint).then(
      (session) => sessions.push(session),
      (error: unknown) => {
        refusal = error;
      },
    );
  }
  expect(refusal).toBeInstanceOf(CapacityError);
  expect(refusal).toMatchObject({ resource: "memory for grammars", limit: most });
  expect((refusal as Error).message).toMatch(
    /^Cannot reserve memory for grammars: those of running and waiting requests would take \d+ MiB of 4 MiB/,
  );
  expect(sessions.length).toBeGreaterThan(1);
  // What is held already can be shared.
  const again = await service.open(large("a"));
  again.close();
  again.close();
  for (const session of sessions) await session.advance([]);
  const refused = large(String.fromCharCode(97 + sessions.length));
  await expect(service.open(refused)).rejects.toThrow(CapacityError);
  for (const session of sessions.splice(0)) session.close();
  const session = await service.open(refused);
  const expected = await alone.open(refused);
  const text = byteTokens(String.fromCharCode(refused.source.charCodeAt(0)));
  expect(await session.advance(text)).toEqual(await expected.advance(text));
});

/** A thread that takes what it is sent and never answers. */
function silentThread(sent: GrammarCall[]) {
  return { send: (calls: readonly GrammarCall[]) => void sent.push(...calls), terminate: () => {} };
}

test("constraints that wait to be compiled are held up to a limit, until their clients leave", async () => {
  const sent: GrammarCall[] = [];
  const service = new RemoteGrammarService(model, () => silentThread(sent));
  const long: Constraint = { kind: "regex", source: "a".repeat(2 ** 20) };
  const leaving = Array.from({ length: 32 }, () => new AbortController());
  const waiting = leaving.map(({ signal }) => service.open(long, signal));
  await expect(service.open(long)).rejects.toThrow(CapacityError);
  for (const one of leaving) one.abort();
  for (const outcome of await Promise.allSettled(waiting)) {
    expect(outcome).toMatchObject({ status: "rejected", reason: expect.any(WorkerError) });
  }
  const later = service.open(long);
  service.close();
  await expect(later).rejects.toThrow("the grammar service is closed");
  const closed = sent.filter(({ type }) => type === "close");
  expect(closed).toHaveLength(32);
});

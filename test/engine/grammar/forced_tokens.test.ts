/** What must follow is looked for ahead: limits that lie there are met only by texts that get there. */
import { expect, test, vi } from "vitest";
import type { GrammarModel } from "../../../src/engine/grammar/grammar_service.ts";
import { localGrammarService } from "../../../src/engine/grammar/local_grammar_service.ts";
import type { Constraint } from "../../../src/grammar/grammar.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { byteTokens, END } from "../../support/engines/heavy_grammar.ts";

const long = new TextEncoder().encode("a".repeat(2000));
const LONG = 258;
const model: GrammarModel = {
  tokens: {
    size: 259,
    bytes: (id) => (id === LONG ? long : id < 2 ? new Uint8Array(0) : Uint8Array.of(id - 2)),
    isSpecial: (id) => id < 2,
  },
  endTokens: [END],
  vocabularySize: 259,
};
/** Behind "xyz" the long token has more readings than are followed. */
const constraint: Constraint = {
  kind: "ebnf",
  source: 'root ::= "xyz" [ab]* "a" [ab]{1500}',
};
const open = (looksAhead?: boolean) =>
  localGrammarService(model).open(constraint, undefined, { looksAhead });

test("a limit behind forced tokens fails no text that has not come there", async () => {
  // The limit is met in the first slice, however slow the machine.
  const clock = vi.spyOn(performance, "now").mockReturnValue(0);
  const session = await open();
  expect(await session.advance([])).toMatchObject({ forcedTokens: byteTokens("xyz") });
  // The matcher stands where it stood.
  expect(await session.advance(byteTokens("x"))).toMatchObject({ forcedTokens: byteTokens("yz") });
  const drafted = await session.advance(byteTokens("y"), byteTokens("z"));
  expect(drafted).toMatchObject({ forcedTokens: byteTokens("z"), allowedDrafts: [] });
  await expect(async () => session.advance(byteTokens("z"))).rejects.toThrow(GrammarError);
  clock.mockRestore();
});

test("nothing is looked for where nothing is taken without a step", async () => {
  const session = await open(false);
  const next = await session.advance([]);
  expect(next.forcedText).toBe("");
  expect(next).not.toHaveProperty("forcedTokens");
});

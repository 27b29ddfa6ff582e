import { expect, test } from "vitest";
import type { GrammarAnswer, GrammarCall } from "../../../src/engine/grammar/grammar_messages.ts";
import { serveGrammars } from "../../../src/engine/grammar/serve_grammars.ts";
import { flatTokens } from "../../../src/grammar/masks/flat_tokens.ts";
import { byteTokens, END, heavyPattern, heavyTokens } from "../../support/engines/heavy_grammar.ts";

const source = heavyTokens();
const tokens = flatTokens(source);
const A = byteTokens("a");

/** A server whose turns end when it is told so, and what it has answered: type and session. */
function server() {
  const answers: string[] = [];
  let endTurns: (() => void)[] = [];
  const send = (sent: readonly GrammarAnswer[]) => {
    answers.push(...sent.map(({ type, session }) => `${type} ${session}`));
  };
  const othersTurn = () => new Promise<void>((resolve) => endTurns.push(resolve));
  const take = serveGrammars({ send, othersTurn });
  const settle = () => new Promise((resolve) => setTimeout(resolve));
  return {
    answers,
    async ask(...calls: readonly GrammarCall[]) {
      take(calls);
      await settle();
    },
    /** @returns Whether a caller had waited for one. */
    async turn(): Promise<boolean> {
      const waiting = endTurns;
      endTurns = [];
      for (const end of waiting) end();
      await settle();
      return waiting.length > 0;
    },
  };
}

const model: GrammarCall = {
  type: "model",
  model: { tokens, endTokens: [END], vocabularySize: source.size },
};
const open = (session: number, source: string): GrammarCall => ({
  type: "open",
  session,
  constraint: { kind: "regex", source },
});
const advance = (session: number, tokens: readonly number[] = []): GrammarCall => ({
  type: "advance",
  session,
  tokens,
});
test("masks that are known are answered between two constraints that are compiled", async () => {
  const { ask, turn, answers } = server();
  await ask(model, open(1, "a*"));
  await turn();
  await ask(advance(1));
  while (await turn());
  await ask(advance(1, A));
  while (await turn());
  answers.length = 0;

  await ask(open(2, heavyPattern("0")), open(3, heavyPattern("1")), advance(1, A));
  expect(answers).toEqual(["next 1"]);
  await turn();
  await ask(advance(1, A));
  await turn();
  expect(answers).toEqual(["next 1", "opened 2", "next 1", "opened 3"]);
});

test("a mask that takes long is made in turns, in which others are answered, until its session closes", async () => {
  const { ask, turn, answers } = server();
  await ask(model, open(1, heavyPattern("0")), open(2, heavyPattern("0")), open(3, "x"));
  while (await turn());
  answers.length = 0;
  await ask(advance(1), advance(3));
  while (!answers.includes("next 3")) expect(await turn()).toBe(true);
  expect(answers).toEqual(["next 3"]);
  await ask({ type: "close", session: 1 }, { type: "close", session: 3 });
  await turn();
  expect(await turn()).toBe(false);
  expect(answers).toEqual(["next 3", "failed 1"]);
  await ask(advance(2));
  while (await turn());
  expect(answers.at(-1)).toBe("next 2");
});

test("a constraint whose sequence has left is not compiled any more", async () => {
  const { ask, turn, answers } = server();
  await ask(model, open(1, "a*"), open(2, heavyPattern("2")), open(3, "b*"));
  await ask({ type: "close", session: 2 }, { type: "close", session: 1 });
  while (await turn());
  expect(answers).toEqual(["opened 3"]);
});

test("masks of what may come next are made while no sequence waits for one", async () => {
  const { ask, turn, answers } = server();
  await ask(model, open(1, `x${heavyPattern("3")}`));
  await turn();
  await ask(advance(1));
  while (await turn());
  // Behind "x" stands a mask that takes many turns, and now takes none.
  await ask(advance(1, byteTokens("x")));
  expect(answers.at(-1)).toBe("next 1");
  // What it prepares for ends with the session.
  await ask({ type: "close", session: 1 });
  await turn();
  expect(await turn()).toBe(false);
});

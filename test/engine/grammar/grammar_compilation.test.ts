/** What a grammar service tells of compiling, in its own thread and through messages. */
import { expect, test } from "vitest";
import type { GrammarModel, GrammarService } from "../../../src/engine/grammar/grammar_service.ts";
import { localGrammarService } from "../../../src/engine/grammar/local_grammar_service.ts";
import { RemoteGrammarService } from "../../../src/engine/grammar/remote_grammar_service.ts";
import { serveGrammars } from "../../../src/engine/grammar/serve_grammars.ts";
import type { Constraint } from "../../../src/grammar/grammar.ts";
import { END, heavyPattern, heavyTokens } from "../../support/engines/heavy_grammar.ts";

const tokens = heavyTokens();
const model: GrammarModel = { tokens, endTokens: [END], vocabularySize: tokens.size };
const regex = (source: string): Constraint => ({ kind: "regex", source });

/** The far side in this thread: what is sent is copied, as it is on its way to another. */
const throughMessages = (model: GrammarModel) =>
  new RemoteGrammarService(model, ({ onAnswers }) => {
    const take = serveGrammars({
      send: (answers) => onAnswers(structuredClone(answers)),
      othersTurn: () => new Promise((resolve) => setTimeout(resolve)),
    });
    return { send: (calls) => take(structuredClone(calls)), terminate: () => {} };
  });

test.each<[string, (model: GrammarModel) => GrammarService]>([
  ["in its own thread", localGrammarService],
  ["through messages", throughMessages],
])(
  "a grammar service %s tells which grammars it had, and how long others took",
  async (_, create) => {
    const service = create(model);
    const opened = async (constraint: Constraint) => {
      const startedAt = performance.now();
      const { compilation } = await service.open(constraint);
      const elapsed = (performance.now() - startedAt) / 1000;
      expect(compilation.seconds).toBeGreaterThan(0);
      expect(compilation.seconds).toBeLessThanOrEqual(elapsed);
      return compilation;
    };
    await opened(regex("x"));
    const first = await opened(regex(heavyPattern("0")));
    const again = await opened(regex(heavyPattern("0")));
    const other = await opened(regex(heavyPattern("1")));
    expect([first, again, other].map(({ isCached }) => isCached)).toEqual([false, true, false]);
    expect(first.seconds).toBeGreaterThan(again.seconds);
    service.close();
  },
);

/** Threads that replicas share: made once, asked by all, closed with the last. */
import { expect, test, vi } from "vitest";
import { LocalGrammarService } from "../../../src/engine/grammar/local_grammar_service.ts";
import { loadText } from "../../../src/engine/load/text_model.ts";
import { LocalTextService } from "../../../src/engine/text/local_text_service.ts";
import { sharedServices } from "../../../src/node/replicas/shared_services.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { until } from "../../support/until.ts";

async function setUp() {
  const source = folderSource(EMBEDDED_MODEL);
  const model = await loadText(source, {});
  const { vocabulary } = model.tokenizer;
  const endTokens = [...model.eosTokenIds];
  const grammars = { tokens: vocabulary, endTokens, vocabularySize: vocabulary.size };
  return { texts: { model, source, options: {} }, grammars };
}

test("a grammar that one replica has had compiled is there for the others", async () => {
  const { grammars } = await setUp();
  const closed = vi.spyOn(LocalGrammarService.prototype, "close");
  const { grammarService } = sharedServices();
  const [first, second] = [grammarService(grammars), grammarService(grammars)];
  const constraint = { kind: "regex", source: "[0-9]{3}" } as const;
  const one = await first.open(constraint);
  const other = await second.open(constraint);
  expect([one.compilation.isCached, other.compilation.isCached]).toEqual([false, true]);
  one.close();
  first.close();
  first.close();
  expect(closed).not.toHaveBeenCalled();
  expect((await other.advance([])).mustEnd).toBe(false);
  other.close();
  second.close();
  expect(closed).toHaveBeenCalledTimes(1);
  // A later replica has another one.
  const third = grammarService(grammars);
  expect((await third.open(constraint)).compilation.isCached).toBe(false);
  third.close();
  vi.restoreAllMocks();
});

test("texts are read by one service, and one that cannot be opened is no user", async () => {
  const { texts } = await setUp();
  const closed = vi.spyOn(LocalTextService.prototype, "close");
  const { textService } = sharedServices();
  const broken = {
    ...texts,
    model: {
      ...texts.model,
      createChat: () => {
        throw new Error("Cannot read it");
      },
    },
  };
  await expect(textService(broken)).rejects.toThrow("Cannot read it");
  const [first, second] = await Promise.all([textService(texts), textService(texts)]);
  expect(first.templateVariables).toBe(second.templateVariables);
  first.close();
  expect(closed).not.toHaveBeenCalled();
  expect(second.run({ type: "decode", tokens: [70], skipSpecialTokens: true }).result).toBeTypeOf(
    "string",
  );
  second.close();
  await until(() => expect(closed).toHaveBeenCalledTimes(1));
  vi.restoreAllMocks();
});

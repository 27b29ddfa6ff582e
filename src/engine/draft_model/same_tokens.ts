/**
 * Whether a draft model means the same tokens by their ids as its target.
 *
 * @module
 */
import { readOptionalJson } from "../../checkpoint/json_file.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { Tokenizer } from "../../text/tokenizer.ts";
import { loadTokenizer, TOKENIZER_FILES } from "../load/tokenizer_files.ts";

type Vocabulary = Tokenizer["vocabulary"];

/**
 * Compares the texts of all ids that both have. A draft without a tokenizer is taken to have the
 * target's.
 *
 * @throws {InvalidRequestError} with the first id that means another text, and how many do.
 * @throws {CheckpointError} naming the draft's file that is malformed.
 */
export async function requireSameTokens(
  { vocabulary }: Tokenizer,
  draft: WeightSource | undefined,
): Promise<void> {
  if (draft === undefined) return;
  const names = (await draft.list()).map(({ name }) => name);
  if (!names.some((name) => TOKENIZER_FILES.includes(name))) return;
  const tokenizerConfig = await readOptionalJson(draft, "tokenizer_config.json");
  const own = await loadTokenizer(draft, { tokenizerConfig, fallbackEncoding: undefined });
  const { first, count } = differenceOf(vocabulary, own.vocabulary);
  if (first === undefined) return;
  const field = "speculation.draftModelPath";
  const texts = [own.vocabulary, vocabulary].map((one) => JSON.stringify(one.text(first)));
  throw new InvalidRequestError(
    `Cannot use ${field} ${draft.name}: ${count} of its tokens have other texts than the model's; ` +
      `token ${first} is ${texts[0]}, and ${texts[1]} of the model`,
    field,
  );
}

function differenceOf(target: Vocabulary, draft: Vocabulary) {
  const ids = Math.min(target.size, draft.size);
  let first: number | undefined;
  let count = 0;
  for (let id = 0; id < ids; id++) {
    const [a, b] = [target.bytes(id), draft.bytes(id)];
    if (a.length === b.length && a.every((byte, i) => byte === b[i])) continue;
    first ??= id;
    count += 1;
  }
  return { first, count };
}

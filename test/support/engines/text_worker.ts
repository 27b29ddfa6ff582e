/**
 * Text services in real threads, and models whose texts take as long as they like.
 *
 * @module
 */
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import {
  RemoteTextService,
  TEXT_LIMITS,
  type TextLimits,
} from "../../../src/engine/text/remote_text_service.ts";
import { readTextFiles } from "../../../src/engine/text/text_files.ts";
import type { StartTextThread } from "../../../src/engine/text/text_lane.ts";
import type { TextQuestion } from "../../../src/engine/text/text_messages.ts";
import { textThread } from "../../../src/node/worker_text_service.ts";
import { byteLevelJson } from "../../text/small_tokenizers.ts";

/** Takes twice as long with every letter a in front of what is not the end of the text. */
const CATASTROPHE = "(a+)+$";
export const ENDLESS_TEXT = `${"a".repeat(40)}!`;

/** Loops for as long as it likes, or takes all memory, where a variable asks for it. */
const TEMPLATE = `{%- if endless %}
{%- for i in range(100000) %}{% for j in range(100000) %}{% for k in range(99) %}{% endfor %}{% endfor %}{% endfor %}
{%- endif %}
{%- if hungry %}
{%- set ns = namespace(all=[messages]) %}
{%- for i in range(100000) %}{% set ns.all = ns.all + [range(100000)] %}{% endfor %}
{%- endif %}
{%- for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}`;

/** A model whose pre-tokenizer has a catastrophic pattern, and that changes no other text. */
export function hostileModel(changes: object = {}): WeightSource {
  const json = byteLevelJson() as { readonly pre_tokenizer: object };
  const pattern = { type: "Split", pattern: { Regex: CATASTROPHE }, behavior: "Isolated" };
  const files = {
    "config.json": {},
    "tokenizer.json": {
      ...json,
      pre_tokenizer: {
        type: "Sequence",
        pretokenizers: [{ ...pattern, invert: false }, json.pre_tokenizer],
      },
      ...changes,
    },
    "tokenizer_config.json": { chat_template: TEMPLATE },
  };
  const encoder = new TextEncoder();
  return memorySource(
    Object.fromEntries(
      Object.entries(files).map(([name, content]) => [
        name,
        encoder.encode(JSON.stringify(content)),
      ]),
    ),
  );
}

/** Starts real threads and keeps account of them, and of what each is asked. */
export function watchedTextThreads(url: URL, heapMib?: number) {
  const asked: TextQuestion[][] = [];
  const start: StartTextThread = (events) => {
    const questions: TextQuestion[] = [];
    asked.push(questions);
    const thread = textThread(url, heapMib)(events);
    return {
      ...thread,
      send(question) {
        questions.push(question);
        thread.send(question);
      },
    };
  };
  return { start, asked };
}

/** Seconds that texts may take: as little as a test has to wait for. */
export function timeLimits(short: number, long = TEXT_LIMITS.long.seconds): TextLimits {
  return {
    ...TEXT_LIMITS,
    short: { ...TEXT_LIMITS.short, seconds: short },
    long: { ...TEXT_LIMITS.long, seconds: long },
  };
}

/** A service over a model's files. */
export async function openTexts(
  source: WeightSource,
  start: StartTextThread,
  limits: TextLimits = TEXT_LIMITS,
): Promise<RemoteTextService> {
  return RemoteTextService.open({ start, files: await readTextFiles(source), options: {}, limits });
}

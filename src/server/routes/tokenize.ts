/**
 * `POST /tokenize` and `POST /detokenize`: text to tokens and back, as the model has them.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { ModelDescription, TokenizeRequest } from "../../generation.ts";
import { clientOf } from "../../http/client_of.ts";
import { Fields, present, requireIds, requireList, requireString } from "../../http/fields.ts";
import { jsonResponse } from "../../http/json_response.ts";
import { readMessages } from "../fields/chat_request.ts";
import { MAX_TEXTS, requireFew } from "../fields/field_limits.ts";
import { IDLE_TOKENIZE_FIELDS } from "../fields/idle_fields.ts";
import { readTemplateVariables } from "../fields/thinking_fields.ts";
import { readShownTools } from "../fields/tool_fields.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";
import { asClientWrote } from "../wire/wire_names.ts";

/** Bytes of a body for each token of the context: twice what tokens of most texts have. */
export const BYTES_PER_TOKEN = 8;
/** Bytes of a body that are always read. */
export const LEAST_BYTES = 256 * 1024;

/** Size of a body at most: texts that no prompt comes near are refused. */
function bodyLimit({ engine, maxBodyBytes }: ServerContext): number {
  const enough = Math.max(LEAST_BYTES, BYTES_PER_TOKEN * engine.model.contextLength);
  return Math.min(enough, maxBodyBytes);
}

/** `prompt`, one or a list of them, or `messages` -> `tokens`, `count` and `max_model_len`. */
export async function handleTokenize(context: ServerContext, request: Request): Promise<Response> {
  const { engine } = context;
  const body = await readBody(context, request, { maxBytes: bodyLimit(context) });
  const { requests, batch } = readTexts(body, context);
  const client = present({ client: clientOf(request) });
  const tokens = await allUnlessLeft(request.signal, requests, (one, signal) =>
    engine.tokenize({ ...one, ...client, signal }),
  ).catch((error: unknown) => {
    throw asClientWrote(error, { endpoint: "tokenize", body });
  });
  const counts = tokens.map(({ length }) => length);
  return jsonResponse({
    tokens: batch ? tokens : tokens[0],
    count: batch ? counts : counts[0],
    max_model_len: engine.model.contextLength,
  });
}

/** Texts of one request that are read at once: others have their turns in between. */
const READ_AT_ONCE = 32;

/** What all come to; when one fails or the client leaves, the others are given up. */
async function allUnlessLeft<Item, Result>(
  client: AbortSignal,
  items: readonly Item[],
  work: (item: Item, signal: AbortSignal) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  // One for each: platforms warn of many listeners on one signal.
  let aborts: readonly AbortController[] = [];
  const leave = () => {
    for (const abort of aborts) abort.abort(client.reason);
  };
  client.addEventListener("abort", leave);
  try {
    for (let i = 0; i < items.length; i += READ_AT_ONCE) {
      client.throwIfAborted();
      const some = items.slice(i, i + READ_AT_ONCE);
      aborts = some.map(() => new AbortController());
      const pending = some.map((item, j) => work(item, aborts[j]!.signal));
      for (const result of await Promise.all(pending)) results.push(result);
    }
    return results;
  } finally {
    client.removeEventListener("abort", leave);
    leave();
  }
}

interface Texts {
  readonly requests: readonly TokenizeRequest[];
  readonly batch: boolean;
}

function readTexts(body: unknown, { onIdle }: ServerContext): Texts {
  const fields = new Fields(body, { onIdle });
  fields.string("model");
  const prompt = fields.value("prompt");
  const hasMessages = fields.value("messages") !== undefined;
  if ((prompt === undefined) !== hasMessages) {
    const problem = hasMessages ? "the request has both" : "the request has neither";
    throw new InvalidRequestError(`Cannot tokenize prompt or messages: ${problem}`, "prompt");
  }
  const texts = hasMessages ? readConversation(fields) : readPrompts(fields);
  fields.end();
  return texts;
}

function readPrompts(fields: Fields): Texts {
  const value = fields.value("prompt");
  const addSpecialTokens = fields.boolean("add_special_tokens");
  const batch = Array.isArray(value);
  if (batch) requireFew(value, "prompt", MAX_TEXTS);
  const prompts = batch
    ? value.map((item: unknown, i) => requireString(item, `prompt[${i}]`))
    : [requireString(value, "prompt")];
  const requests = prompts.map((prompt) => present<TokenizeRequest>({ prompt, addSpecialTokens }));
  return { requests, batch };
}

function readConversation(fields: Fields): Texts {
  fields.takeIdle(IDLE_TOKENIZE_FIELDS);
  const request = present<TokenizeRequest>({
    messages: readMessages(fields),
    tools: readShownTools(fields),
    templateVariables: readTemplateVariables(fields),
    continueFinalMessage: fields.boolean("continue_final_message") || undefined,
  });
  return { requests: [request], batch: false };
}

/** `tokens`, one list of ids or several -> `text`. */
export async function handleDetokenize(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const { engine } = context;
  const fields = new Fields(await readBody(context, request, { maxBytes: bodyLimit(context) }));
  fields.string("model");
  const { lists, batch } = readTokens(fields, engine.model);
  const skipSpecialTokens = fields.boolean("skip_special_tokens") ?? true;
  fields.end();
  const client = present({ client: clientOf(request) });
  const texts = await allUnlessLeft(request.signal, lists, (tokens, signal) =>
    engine.detokenize(tokens, { skipSpecialTokens, ...client, signal }),
  );
  return jsonResponse({ text: batch ? texts : texts[0] });
}

function readTokens(
  fields: Fields,
  { vocabularySize }: ModelDescription,
): { readonly lists: readonly (readonly number[])[]; readonly batch: boolean } {
  const list = requireList(fields.value("tokens"), "tokens");
  if (!Array.isArray(list[0])) {
    return { lists: [requireIds(list, "tokens", vocabularySize)], batch: false };
  }
  requireFew(list, "tokens", MAX_TEXTS);
  const lists = list.map((item, i) => requireIds(item, `tokens[${i}]`, vocabularySize));
  return { lists, batch: true };
}

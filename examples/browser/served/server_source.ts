/**
 * Answers of a server, over its chat completions.
 *
 * @module
 */
import type { ChatClient } from "../../../src/client/chat_client.ts";
import type { ServedModel } from "../../../src/client/chat_exchange.ts";
import type { AnswerSource, RoundPiece, RoundRequest } from "../chat/answer_source.ts";
import type { SamplingSettings, Settings } from "../chat/settings.ts";
import { toolSchemas } from "../chat/tools.ts";
import { explainServerError } from "./explain_server_error.ts";

/** Names of the wire. */
const FIELDS: Readonly<Record<keyof SamplingSettings, string>> = {
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  minP: "min_p",
  repetitionPenalty: "repetition_penalty",
  maxTokens: "max_tokens",
  seed: "seed",
};

export function serverSource(client: ChatClient, model: ServedModel): AnswerSource {
  const { temperature, top_p: topP, top_k: topK, max_tokens: maxNewTokens } = model.defaults;
  return {
    model: {
      path: model.name,
      readsImages: model.readsImages === true,
      thinkingVariables: model.thinkingVariables,
      defaults: {
        ...(temperature !== undefined && { temperature }),
        ...(topP !== undefined && { topP }),
        ...(topK !== undefined && { topK }),
        ...(maxNewTokens !== undefined && { maxNewTokens }),
      },
    },
    round: (request) => answerRound(client, model, request),
    explain: explainServerError,
  };
}

async function* answerRound(
  client: ChatClient,
  model: ServedModel,
  { messages, images, settings, tools, signal }: RoundRequest,
): AsyncGenerator<RoundPiece, void> {
  const { thinking } = settings;
  const pieces = client.answer(model, {
    messages,
    images,
    tools: toolSchemas(tools),
    thinking: thinking === "auto" ? undefined : thinking === "on",
    fields: fieldsOf(settings),
    signal,
  });
  let usage: RoundUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: undefined };
  for await (const { requestId, events, finish, usage: told } of pieces) {
    usage = told ?? usage;
    yield { ...usage, requestId, events, finish: finish === null ? null : roundEnd(finish) };
  }
}

type RoundUsage = Pick<RoundPiece, "promptTokens" | "completionTokens" | "cachedTokens">;

/** Whether the model has called tools is seen by its calls. */
function roundEnd(finish: string): NonNullable<RoundPiece["finish"]> {
  return finish === "length" || finish === "abort" ? finish : "stop";
}

/** Only what the visitor has set: the server knows the rest. */
function fieldsOf({ sampling, answersJson, schema }: Settings): Readonly<Record<string, unknown>> {
  const names = Object.keys(FIELDS) as (keyof SamplingSettings)[];
  const set = names.filter((name) => sampling[name] !== undefined);
  return {
    ...Object.fromEntries(set.map((name) => [FIELDS[name], sampling[name]])),
    ...(answersJson && {
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", schema: JSON.parse(schema) },
      },
    }),
  };
}

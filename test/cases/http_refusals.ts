/**
 * Requests that are refused or fail: each documented error once, and once more wherever it must not
 * depend on the path or on whether a stream was asked for.
 *
 * @module
 */
import { expect } from "vitest";
import { CapacityError, DeviceError, InvalidRequestError } from "../../src/errors.ts";
import { bothForms, type ExpectedError, generateForm } from "../support/server/error_bodies.ts";
import { CHAT, type HttpCase, messages } from "./http_case.ts";

const failing = (error: Error, at = 0) => ({
  script: () => ({ pieces: ["one", " two"], failure: { at, error } }),
  reportError: () => {},
});

const flat = (status: number, type: string, message: string, about: About = {}) => ({
  status,
  json: bothForms({ message: expect.stringContaining(message), type, status, ...about }),
});
type About = Pick<ExpectedError, "param" | "word">;
const nested = (message: string, param: string | null = null) => ({
  status: 400,
  json: generateForm({ message, param }),
});

const ONCE: readonly HttpCase[] = [
  {
    name: "no prompt",
    path: "/generate",
    body: {},
    ...nested("Cannot generate: text, input_ids and input_embeds are all missing", "text"),
  },
  {
    name: "two prompts",
    path: "/generate",
    body: { text: "a", input_ids: [1] },
    ...nested("Cannot use text and input_ids together: a request has one of them", "input_ids"),
  },
  {
    name: "an empty list of ids",
    path: "/generate",
    body: { input_ids: [] },
    ...nested("input_ids cannot be empty", "input_ids"),
  },
  {
    name: "an image",
    path: "/generate",
    body: { text: "a", image_data: "a.png" },
    ...nested("Cannot use image_data: the model reads text only", "image_data"),
  },
  {
    name: "an unknown sampling parameter",
    path: "/generate",
    body: { text: "a", sampling_params: { max_tokens: 1 } },
    ...nested(
      "Cannot use sampling_params.max_tokens: it is not a known field",
      "sampling_params.max_tokens",
    ),
  },
  {
    name: "an unknown sampling parameter of a stream",
    path: "/generate",
    body: { text: "a", stream: true, sampling_params: { top_q: 1 } },
    ...nested("Cannot use sampling_params.top_q: it is not a known field", "sampling_params.top_q"),
  },
  {
    name: "two grammars",
    path: "/generate",
    body: { text: "a", sampling_params: { regex: "a", ebnf: "b" } },
    ...nested(
      "Only one of regex, json_schema, or ebnf can be set, got regex and ebnf",
      "sampling_params.ebnf",
    ),
  },
  {
    name: "a prompt that is too long",
    path: "/generate",
    body: { text: "x".repeat(5000), stream: true },
    ...nested(
      "The input (5000 tokens) is longer than the model's context length (4096 tokens). " +
        "Please reduce the length of the messages or prompt",
      "text",
    ),
  },
  {
    name: "what the engine refuses",
    path: "/generate",
    body: { text: "a" },
    options: failing(new InvalidRequestError("no")),
    ...nested("no"),
  },
  {
    name: "a chat of no messages",
    path: CHAT,
    body: {},
    ...flat(400, "BadRequestError", "Cannot chat: messages is missing", { param: "messages" }),
  },
  {
    name: "a field of another type",
    path: CHAT,
    body: { messages: "hi" },
    ...flat(400, "Bad Request", "messages must be a list", { param: "messages" }),
  },
  {
    name: "required tools without tools",
    path: CHAT,
    body: { messages, tool_choice: "required" },
    ...flat(
      400,
      "BadRequestError",
      "Cannot use tool_choice: it asks for a call, but the request has no tools",
      { param: "tool_choice" },
    ),
  },
  {
    name: "a schema without a schema",
    path: CHAT,
    body: { messages, response_format: { type: "json_schema" } },
    ...flat(
      400,
      "BadRequestError",
      "Cannot read response_format: response_format.json_schema.schema is missing",
      {
        param: "response_format.json_schema.schema",
      },
    ),
  },
  {
    name: "an adapter",
    path: CHAT,
    body: { messages, lora_path: "a" },
    ...flat(400, "BadRequestError", "Cannot use lora_path", { param: "lora_path" }),
  },
  {
    name: "a choice beside a grammar",
    path: CHAT,
    body: { messages, regex: "a", guided_choice: ["a"] },
    ...flat(400, "BadRequestError", "Only one of regex, json_schema, or ebnf can be set", {
      param: "guided_choice",
    }),
  },
  {
    name: "a penalty by two names",
    path: CHAT,
    body: { messages, repetition_penalty: 1, repeat_penalty: 2 },
    ...flat(400, "BadRequestError", "repeat_penalty must be what repetition_penalty is", {
      param: "repeat_penalty",
    }),
  },
  {
    name: "a file",
    path: "/generate_from_file",
    body: {},
    ...flat(400, "BadRequestError", "Cannot use /generate_from_file"),
  },
  {
    name: "a prompt of nothing",
    path: "/v1/completions",
    body: { prompt: "" },
    ...flat(400, "BadRequestError", "Prompt cannot be empty", { param: "prompt" }),
  },
  {
    name: "a suffix",
    path: "/v1/completions",
    body: { prompt: "a", suffix: "b" },
    ...flat(400, "BadRequestError", "Cannot use suffix", { param: "suffix" }),
  },
  {
    name: "embeddings",
    path: "/encode",
    body: { text: "a" },
    ...flat(400, "BadRequestError", "Cannot use /encode"),
  },
  {
    name: "a model that is not here",
    path: "/v1/models/other",
    ...flat(404, "NotFoundError", 'Cannot find the model "other": it is not served here', {
      param: "model",
      word: "model_not_found",
    }),
  },
  {
    name: "an unknown path",
    path: "/v2/generate",
    body: {},
    ...flat(404, "NotFoundError", "Cannot POST /v2/generate: no such endpoint", {
      word: "unknown_url",
    }),
  },
  {
    name: "metrics that the server does not count",
    path: "/metrics",
    ...flat(404, "NotFoundError", "no such endpoint", { word: "unknown_url" }),
  },
  {
    name: "another method",
    method: "DELETE",
    path: "/generate",
    ...flat(405, "MethodNotAllowedError", "it takes POST, PUT"),
    answerHeaders: { allow: /^POST, PUT$/ },
  },
  {
    name: "no key",
    path: "/generate",
    body: { text: "a" },
    options: { apiKey: "k" },
    status: 401,
    json: { error: "Unauthorized" },
    answerHeaders: { "www-authenticate": /^Bearer$/ },
  },
  {
    name: "another key",
    path: "/v1/models",
    headers: { authorization: "Bearer kk" },
    options: { apiKey: "k" },
    ...flat(
      401,
      "AuthenticationError",
      "the key in its header Authorization or x-api-key is not the server's",
      {
        word: "invalid_api_key",
      },
    ),
  },
  {
    name: "the key of a user where an admin's is asked for",
    path: "/flush_cache",
    headers: { authorization: "Bearer k" },
    options: { apiKey: "k", adminApiKey: "a" },
    status: 403,
    json: { error: "Forbidden" },
  },
  {
    name: "a page of another origin",
    path: "/v1/models",
    headers: { origin: "https://b.test" },
    options: { allowedOrigins: ["https://a.test"] },
    ...flat(403, "PermissionDeniedError", "pages of https://b.test may not use the server"),
  },
  {
    name: "a page of any other origin, where none is allowed",
    path: "/v1/models",
    headers: { origin: "https://b.test" },
    ...flat(403, "PermissionDeniedError", "pages of https://b.test may not use the server"),
  },
  {
    name: "a browser's GET that would change the server",
    path: "/flush_cache",
    headers: { "user-agent": "Mozilla/5.0" },
    ...flat(
      405,
      "MethodNotAllowedError",
      "it changes the server, which browsers may do by POST only",
    ),
  },
  {
    name: "a server that stops",
    path: CHAT,
    body: { messages },
    options: { lifecycle: () => "draining" },
    ...flat(503, "503", "the server is shutting down"),
  },
  {
    name: "the health of a server that stops",
    path: "/health",
    options: { lifecycle: () => "draining" },
    status: 503,
    text: /^$/,
  },
  {
    name: "the health of a server that starts",
    path: "/health",
    options: { lifecycle: () => "starting" },
    status: 503,
    text: /^$/,
  },
  {
    name: "the health of an engine that is stuck",
    path: "/health",
    options: { stalledFor: 10, watchdogTimeout: 5 },
    status: 503,
    text: /^$/,
  },
  {
    name: "the health of a lost device",
    path: "/health",
    options: { healthy: false },
    status: 503,
    text: /^$/,
  },
  {
    name: "an error after the first event",
    path: "/generate",
    body: { text: "a", stream: true },
    options: failing(new DeviceError("gone"), 1),
    status: 200,
    text: /"text":"one".*data: \{"error":\{"message":"gone",.*"code":500\}\}\n\ndata: \[DONE\]\n\n$/s,
  },
  {
    name: "an error after the first event of a chat",
    path: CHAT,
    body: { messages, stream: true },
    options: failing(new DeviceError("gone"), 1),
    status: 200,
    text: /"content":"one".*data: \{"error":\{"object":"error","message":"gone",.*"code":500\}\}\n\ndata: \[DONE\]\n\n$/s,
  },
];

/** Every path that reads a body refuses the same bodies in the same way. */
const BODIES: readonly HttpCase[] = [
  "/generate",
  CHAT,
  "/v1/completions",
  "/abort_request",
].flatMap((path): HttpCase[] => [
  { name: `no JSON to ${path}`, path, body: "{", ...flat(400, "Bad Request", "it is not JSON") },
  { name: `nothing to ${path}`, path, body: "", ...flat(400, "Bad Request", "it is empty") },
  { name: `no object to ${path}`, path, body: "[]", ...flat(400, "Bad Request", "an object") },
  {
    name: `text to ${path}`,
    path,
    body: "{}",
    headers: { "content-type": "text/plain" },
    ...flat(400, "Bad Request", "Content-Type"),
  },
  {
    name: `too much to ${path}`,
    path,
    body: `"${"x".repeat(200)}"`,
    options: { maxBodyBytes: 100 },
    ...flat(413, "PayloadTooLargeError", "larger than 100 bytes"),
  },
]);

/** Before anything of a stream is sent, an error has a status of its own. */
const STATUSES: readonly HttpCase[] = [false, true].flatMap((stream) =>
  (
    [
      ["/generate", { text: "a", stream }],
      [CHAT, { messages, stream }],
      ["/v1/completions", { prompt: "a", stream }],
    ] as const
  ).flatMap(([path, body]): HttpCase[] => [
    {
      name: `a full queue, ${path}, stream ${stream}`,
      path,
      body,
      options: failing(new CapacityError("places in the request queue", 1, "it is taken")),
      ...flat(503, "503", "The request queue is full."),
    },
    {
      name: `a failing device, ${path}, stream ${stream}`,
      path,
      body,
      options: failing(new DeviceError("gone")),
      ...flat(500, "InternalServerError", "gone"),
    },
    {
      name: `a fault of ours, ${path}, stream ${stream}`,
      path,
      body,
      options: failing(new TypeError("secret")),
      ...flat(500, "InternalServerError", "Internal server error"),
    },
  ]),
);

/** Errors of Anthropic's shape, also those of guards before the endpoint. */
const MESSAGES: readonly HttpCase[] = (
  [
    ["no limit", {}, 400, "invalid_request_error", "max_tokens is missing"],
    ["no key", { options: { apiKey: "k" } }, 401, "authentication_error", "x-api-key: KEY"],
    ["a page", { headers: { origin: "http://a.b" } }, 403, "permission_error", "may not use"],
    ["another method", { method: "PUT" }, 405, "invalid_request_error", "it takes POST"],
  ] as const
).map(([name, given, status, type, message]) => ({
  name: `a message with ${name}`,
  path: "/v1/messages",
  body: { messages },
  ...given,
  status,
  json: { type: "error", error: { type, message: expect.stringContaining(message) as unknown } },
}));

export const REFUSALS: readonly HttpCase[] = [...ONCE, ...BODIES, ...STATUSES, ...MESSAGES];

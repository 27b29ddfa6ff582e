/**
 * Holds the messages of errors to one form: "Cannot <verb> <what>: <state>".
 *
 * @module
 */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseAst } from "vite";
import { describe, expect, test } from "vitest";
import { isNode, type Node, nodesOf } from "./support/syntax_nodes.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

/** A value that a message is given, as this test writes it. */
const HOLE = "~";

const FORM = /^Cannot [a-z~]\S*(?: .*)?: (?:\S.*)?[^.\s]$/s;

/** What the specification writes of a field in a request, by the name that the caller gave it. */
const FIELD_FORMS: readonly RegExp[] = [
  /^\S+ must (?:be|have) .+, got .+$/,
  /^\S+ cannot be empty$/,
];
const OF_REQUESTS: readonly string[] = ["InvalidRequestError", "HttpError"];

/** These classes write "Cannot <verb> <what>: " before the state that they are given. */
const BUILDERS: readonly string[] = [
  "CapacityError",
  "CheckpointError",
  "DownloadError",
  "KernelError",
  "MissingModelError",
  "StorageError",
  "StorageFullError",
  "TransferError",
  "UnsupportedError",
];

/** Errors of which only the state reaches a caller, in the message of the error they become. */
const STATES: Readonly<Record<string, string>> = {
  TrafficError: "the benchmark counts such reasons and writes them behind its own sentence",
  JsonTextError: "an HttpError says it of a body",
  ClusterError: "the router writes it behind its own sentence",
  MalformedError: "the router writes it behind its own sentence",
  TooLargeError: "the router writes it behind its own sentence",
  PassingError: "a DownloadError says it when no try is left",
  SyntaxError: "a CheckpointError or a GrammarError says it of a file or a text",
  TemplateRefusal: "words of the chat template, which an InvalidRequestError says",
  TypeError: "an InvalidRequestError says it of a field",
};

const CLIENTS_WAIT = "clients tell the error by these words, which the specification gives";

/** Messages with words of their own, by the error's class and the first sentence. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  "ContextLengthError: The input (~ tokens) is longer than the model's context length (~ tokens)":
    CLIENTS_WAIT,
  "ContextLengthError: Requested token count exceeds the model's maximum context length of ~ tokens":
    CLIENTS_WAIT,
  "InvalidRequestError: Duplicate request ID ~": CLIENTS_WAIT,
  "InvalidRequestError: Only one of regex, json_schema, or ebnf can be set, got ~": CLIENTS_WAIT,
  "InvalidRequestError: inputEmbeds[~]~": "its ends are of the form for fields",
  "HttpError: ~: cannot ~ ~: ~": "clients wait for the word Unauthorized or Forbidden first",
  "GrammarError: ~, line ~, column ~": "the message of another place, to which it adds where",
  "GrammarError: Cannot use ~": "what completes it has the colon",
};

interface Message {
  readonly place: string;
  readonly error: string;
  readonly text: string;
}

/** The text of a literal, with a hole for each value in it; undefined for what is none. */
function textOf(node: unknown, constants: ReadonlyMap<string, Node>): string | undefined {
  if (!isNode(node)) return undefined;
  switch (node.type) {
    case "Literal":
      return typeof node.value === "string" ? node.value : undefined;
    case "TemplateLiteral": {
      const quasis = node.quasis as readonly { readonly value: { readonly cooked: string } }[];
      const values = node.expressions as readonly Node[];
      return quasis
        .map(({ value }, i) => {
          const known = i < values.length ? textOf(values[i], constants) : "";
          return value.cooked + (known ?? HOLE);
        })
        .join("");
    }
    case "BinaryExpression": {
      const [left, right] = [textOf(node.left, constants), textOf(node.right, constants)];
      return left === undefined && right === undefined
        ? undefined
        : (left ?? HOLE) + (right ?? HOLE);
    }
    case "Identifier": {
      const constant = constants.get(node.name as string);
      return constant && textOf(constant, constants);
    }
    default:
      return undefined;
  }
}

/** Constants of a file by name; those that several functions have are none. */
function constantsOf(nodes: readonly Node[]): ReadonlyMap<string, Node> {
  const constants = new Map<string, Node>();
  const shared = new Set<string>();
  for (const { type, id, init } of nodes) {
    if (type !== "VariableDeclarator" || !isNode(id) || id.type !== "Identifier") continue;
    const name = id.name as string;
    if (constants.has(name) || !isNode(init)) shared.add(name);
    else constants.set(name, init);
  }
  for (const name of shared) constants.delete(name);
  return constants;
}

/** Methods of the scanners of grammars that make errors, and what they write before their text. */
const SCANNERS = "src/grammar/";
const SCANNER_METHODS: Readonly<Record<string, string>> = { unsupported: "Cannot use ", error: "" };

/** These take a code before the message. */
const SECOND: readonly string[] = ["HttpError"];

/** What an expression makes an error of: its class, the text before its message, the message. */
function errorMadeBy(node: Node, path: string): [string, string, unknown] | undefined {
  const { callee } = node;
  if (!isNode(callee)) return undefined;
  const given = node.arguments as readonly Node[];
  if (node.type === "CallExpression" && path.startsWith(SCANNERS)) {
    const method = isNode(callee.property) ? String(callee.property.name) : "";
    const prefix = Object.hasOwn(SCANNER_METHODS, method) ? SCANNER_METHODS[method] : undefined;
    return prefix === undefined ? undefined : ["GrammarError", prefix, given[0]];
  }
  if (node.type !== "NewExpression" || callee.type !== "Identifier") return undefined;
  const error = callee.name as string;
  if (!error.endsWith("Error") && error !== "TemplateRefusal") return undefined;
  return [error, "", given[SECOND.includes(error) ? 1 : 0]];
}

/** The messages of all errors that a file makes, as far as they stand there as text. */
function messagesIn(path: string): Message[] {
  const source = readFileSync(`${root}/${path}`, "utf8");
  const nodes = [...nodesOf(parseAst(source, { lang: "ts" }))];
  const constants = constantsOf(nodes);
  return nodes.flatMap((node) => {
    const made = errorMadeBy(node, path);
    if (made === undefined) return [];
    const [error, prefix, argument] = made;
    const text = textOf(argument, constants);
    if (text === undefined) return [];
    const line = source.slice(0, node.start).split("\n").length;
    return [{ place: `${path}:${line}`, error, text: prefix + text }];
  });
}

const isException = ({ error, text }: Message, known: string): boolean =>
  `${error}: ${text.split(". ")[0]}` === known;

function hasForm(message: Message): boolean {
  const { error, text } = message;
  if (FORM.test(text)) return true;
  if (Object.keys(EXCEPTIONS).some((known) => isException(message, known))) return true;
  return OF_REQUESTS.includes(error) && FIELD_FORMS.some((form) => form.test(text));
}

const files = ["src", "kernels"].flatMap((folder) =>
  readdirSync(`${root}/${folder}`, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))
    .map((name) => `${folder}/${name}`),
);
const messages = files.flatMap(messagesIn);
const sentences = messages.filter(
  ({ error }) => !BUILDERS.includes(error) && !Object.hasOwn(STATES, error),
);

describe("messages of errors", () => {
  test("there are some to read", () => {
    expect(sentences.length).toBeGreaterThan(200);
  });

  test("read Cannot <verb> <what>: <state>", () => {
    const wrong = sentences.filter((message) => !hasForm(message));
    expect(wrong.map(({ place, error, text }) => `${place}: ${error}: ${text}`)).toEqual([]);
  });

  test("the exceptions are there", () => {
    const unused = Object.keys(EXCEPTIONS).filter(
      (known) => !sentences.some((message) => isException(message, known)),
    );
    expect(unused).toEqual([]);
  });

  test("states begin in the middle of a sentence", () => {
    const wrong = messages.filter(
      ({ error, text }) => Object.hasOwn(STATES, error) && /^[A-Z][a-z]+ (?!.*: )/.test(text),
    );
    expect(wrong.map(({ place, text }) => `${place}: ${text}`)).toEqual([]);
  });
});

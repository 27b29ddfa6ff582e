/**
 * Options of `wisp chat`.
 *
 * @module
 */
import {
  OptionError,
  type OptionRow,
  type OptionTable,
  type OptionValues,
} from "../options/option_parser.ts";
import { ENGINE_OPTIONS, GENERATE_OPTIONS } from "../options/options.ts";

const CHAT = "Chat";

export const CHAT_OPTIONS = {
  url: {
    flags: ["--url"],
    kind: "string",
    value: "URL",
    defaultText: "a model in this process",
    help: "chat with a server that speaks OpenAI's chat completions, such as http://127.0.0.1:30000",
    group: CHAT,
  },
  apiKey: {
    flags: ["--api-key"],
    kind: "string",
    value: "KEY",
    defaultText: "none",
    help: "key of that server",
    group: CHAT,
  },
  system: {
    flags: ["--system"],
    kind: "string",
    value: "TEXT",
    defaultText: "none",
    help: "what the model is told before everything else",
    group: CHAT,
  },
  tools: {
    flags: ["--tools"],
    kind: "string",
    value: "FILE",
    defaultText: "none",
    help: "JSON file with a list of function tools in OpenAI's form; you type their results",
    group: CHAT,
  },
  maxNewTokens: GENERATE_OPTIONS.maxNewTokens,
  temperature: GENERATE_OPTIONS.temperature,
  ...ENGINE_OPTIONS,
} as const satisfies OptionTable;

export type ChatOptions = OptionValues<typeof CHAT_OPTIONS>;

/** @throws {OptionError} for options of a model beside the address of a server that has its own. */
export function requireOneModel(options: ChatOptions): void {
  const { url, apiKey } = options;
  if (url === undefined) {
    if (apiKey === undefined) return;
    throw new OptionError("Cannot use option --api-key without --url: it would change nothing");
  }
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new OptionError(`Cannot use option --url ${url}: it is no address of a server`);
  }
  for (const [key, row] of Object.entries<OptionRow>(ENGINE_OPTIONS)) {
    const value: unknown = options[key as keyof typeof ENGINE_OPTIONS];
    if (value === row.default) continue;
    const flag = row.flags[0];
    throw new OptionError(`Cannot use option ${flag} with --url: the server has its own model`);
  }
}

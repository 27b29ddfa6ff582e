/**
 * What a person can say in a chat to the program and not to the model: lines that begin with a slash.
 *
 * @module
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { ChatCommandError } from "./chat_command_error.ts";
import type { ChatDisplay } from "./chat_display.ts";
import { writtenChat } from "./chat_history.ts";
import type { ChatSession } from "./chat_session.ts";
import { readImageFile } from "./image_file.ts";

interface ChatCommand {
  /** What stands behind its name. */
  readonly argument?: string;
  readonly help: string;
  run(session: ChatSession, argument: string, display: ChatDisplay): void | Promise<void>;
}

const NONE = "none";

export const CHAT_COMMANDS: Readonly<Record<string, ChatCommand>> = {
  help: {
    help: "print these lines",
    run: (_, __, display) => display.note(helpText()),
  },
  system: {
    argument: "[TEXT]",
    help: `tell the model this before everything else; "${NONE}" takes it back, nothing shows it`,
    run: ({ settings }, text, display) => {
      if (text !== "") settings.system = text === NONE ? undefined : text;
      display.note(settings.system === undefined ? "No system prompt" : settings.system);
    },
  },
  tools: {
    argument: "[FILE]",
    help: `offer the model the function tools of a JSON file; "${NONE}" offers none, nothing lists them`,
    run: ({ settings }, file, display) => {
      if (file !== "") settings.tools = file === NONE ? [] : readTools(file);
      const names = settings.tools.map(toolName).join(", ");
      display.note(names === "" ? "No tools" : `Tools: ${names}`);
    },
  },
  image: {
    argument: "[FILE]",
    help: `show the model an image with the next question; "${NONE}" takes all back, nothing lists them`,
    run: (session, file, display) => {
      if (file === NONE) session.shown = [];
      else if (file !== "") session.shown = [...session.shown, readImageFile(file, session.model)];
      const names = session.shown.map(({ name }) => name).join(", ");
      display.note(names === "" ? "No images" : `With the next question: ${names}`);
    },
  },
  thinking: {
    argument: "on|off|auto",
    help: "tell a model that can do both to think, or not to",
    run: ({ settings }, word, display) => {
      const choices: Readonly<Record<string, boolean | undefined>> = {
        on: true,
        off: false,
        auto: undefined,
      };
      if (!Object.hasOwn(choices, word)) {
        throw new ChatCommandError('Cannot set /thinking: it is "on", "off" or "auto"');
      }
      settings.thinking = choices[word];
      display.note(`Thinking: ${word}`);
    },
  },
  retry: {
    help: "ask the last question again, in place of its answer",
    run: async (session) => {
      if (await session.retry()) return;
      throw new ChatCommandError("Cannot ask again: nothing has been asked");
    },
  },
  save: {
    argument: "FILE",
    help: "write the chat to a new file: its messages where it ends in .json, else Markdown",
    run: (session, file, display) => {
      if (file === "")
        throw new ChatCommandError("Cannot save the chat: the name of a file is missing");
      if (existsSync(file))
        throw new ChatCommandError(`Cannot save the chat: ${file} is there already`);
      writeFileSync(file, writtenChat(file, session.allMessages, session.images), { flag: "wx" });
      display.note(`Saved to ${file}`);
    },
  },
  clear: {
    help: "begin a new chat, with the same system prompt and tools",
    run: (session, _, display) => {
      session.clear();
      display.note("A new chat");
    },
  },
};

/** It ends the program, and so is no row of the others. */
export const EXIT = "/exit";

/** Every command in a line. */
export function helpText(): string {
  const rows = Object.entries(CHAT_COMMANDS).map(([name, { argument = "", help }]) => {
    return `${`/${name} ${argument}`.padEnd(24)}${help}`;
  });
  return [
    ...rows,
    `${EXIT.padEnd(24)}end the program, as Ctrl-D does`,
    `${'"""'.padEnd(24)}begins and ends a question of several lines`,
    `${"Ctrl-C".padEnd(24)}stops an answer, and not the program`,
  ].join("\n");
}

/** @throws {ChatCommandError} when there is no such command, or it cannot be carried out. */
export async function runChatCommand(
  line: string,
  session: ChatSession,
  display: ChatDisplay,
): Promise<void> {
  const [, name = "", argument = ""] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? [];
  const command = Object.hasOwn(CHAT_COMMANDS, name) ? CHAT_COMMANDS[name] : undefined;
  if (command === undefined) {
    throw new ChatCommandError(`Cannot run /${name}: there is no such command; /help lists them`);
  }
  try {
    await command.run(session, argument.trim(), display);
  } catch (error) {
    if (!isOfFiles(error)) throw error;
    throw new ChatCommandError(`Cannot run /${name}: ${error.message}`, { cause: error });
  }
}

function isOfFiles(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === "string";
}

/**
 * The tools of a file.
 *
 * @throws {ChatCommandError} when it has none in OpenAI's form.
 */
export function readTools(file: string): readonly object[] {
  const text = readFileSync(file, "utf8");
  let tools: unknown;
  try {
    tools = JSON.parse(text);
  } catch (cause) {
    throw new ChatCommandError(`Cannot read tools of ${file}: it is no JSON`, { cause });
  }
  if (!Array.isArray(tools) || tools.some((tool) => toolName(tool) === undefined)) {
    const form = '[{"type": "function", "function": {"name": ..}}]';
    throw new ChatCommandError(`Cannot read tools of ${file}: it must be a list such as ${form}`);
  }
  return tools;
}

function toolName(tool: unknown): string | undefined {
  if (typeof tool !== "object" || tool === null) return undefined;
  const { function: called } = tool as { readonly function?: { readonly name?: unknown } | null };
  return typeof called?.name === "string" ? called.name : undefined;
}

/**
 * The command `wisp chat`: a conversation in the terminal.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";
import { EXIT, helpText, readTools, runChatCommand } from "../chat/chat_commands.ts";
import { ChatDisplay } from "../chat/chat_display.ts";
import { CHAT_OPTIONS, type ChatOptions, requireOneModel } from "../chat/chat_options.ts";
import { openPartner } from "../chat/chat_partner.ts";
import { ChatSession, type ChatSettings } from "../chat/chat_session.ts";
import { INTERRUPT, type LineInput, openLines } from "../chat/line_input.ts";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp chat [options]

A conversation with a model in this process, or with a server (--url). Lines that are piped in are
asked one after another, and the first that fails ends the program.

${helpText()}
`;

const PROMPT = "> ";
const MORE = "... ";
const QUOTES = '"""';

/**
 * Runs until the end of the input.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model cannot be loaded, or what is piped in cannot be answered.
 */
export async function chatCommand(args: readonly string[], context: CommandContext): Promise<void> {
  const { values: options, positionals } = parseOptions(CHAT_OPTIONS, args);
  const { stdin, stdout, stderr } = context;
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(CHAT_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  requireOneModel(options);
  const settings = settingsOf(options);
  const partner = await openPartner(options, context);
  const display = new ChatDisplay(stdout, stderr);
  const lines = openLines(stdin, stdout);
  const session = new ChatSession(settings, { partner, lines, display });
  const isPerson = stdin?.isTTY === true;
  if (isPerson) display.note(`${partner.model.name}: ask it something; /help tells the rest`);
  try {
    await converse(session, { lines, display, isPerson });
  } finally {
    lines.close();
    await partner.close();
  }
}

function settingsOf({ system, tools, maxNewTokens, temperature }: ChatOptions): ChatSettings {
  return {
    system,
    tools: tools === undefined ? [] : toolsOf(tools),
    thinking: undefined,
    fields: {
      ...(maxNewTokens !== undefined && { max_tokens: maxNewTokens }),
      ...(temperature !== undefined && { temperature }),
    },
  };
}

function toolsOf(file: string): readonly object[] {
  try {
    return readTools(file);
  } catch (cause) {
    throw new OptionError(`Cannot use option --tools: ${(cause as Error).message}`, { cause });
  }
}

interface Conversation {
  readonly lines: LineInput;
  readonly display: ChatDisplay;
  /** Whether what goes wrong is told and the chat goes on. */
  readonly isPerson: boolean;
}

async function converse(session: ChatSession, chat: Conversation): Promise<void> {
  const { lines, display, isPerson } = chat;
  for (;;) {
    const said = await readQuestion(lines);
    if (said === undefined || said === EXIT) return;
    if (said === INTERRUPT) display.note("Ctrl-D or /exit ends the program");
    else if (said !== "") {
      try {
        if (said.startsWith("/")) await runChatCommand(said, session, display);
        else await session.ask(said);
      } catch (error) {
        // What a person is told, the chat can go on from.
        if (!isPerson || !(error instanceof EngineError)) throw error;
        display.note(error.message);
      }
    }
  }
}

/** A line, or several between quotes; undefined at the end of the input. */
async function readQuestion(lines: LineInput): Promise<string | undefined | typeof INTERRUPT> {
  const first = await lines.read(PROMPT);
  if (typeof first !== "string") return first;
  if (!first.startsWith(QUOTES)) return first.trim();
  const all = [first.slice(QUOTES.length)];
  while (!all.at(-1)!.trimEnd().endsWith(QUOTES)) {
    const next = await lines.read(MORE);
    if (next === INTERRUPT) return next;
    if (next === undefined) break;
    all.push(next);
  }
  const text = all.join("\n").trimEnd();
  return (text.endsWith(QUOTES) ? text.slice(0, -QUOTES.length) : text).trim();
}

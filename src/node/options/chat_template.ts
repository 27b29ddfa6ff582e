/**
 * `--chat-template`: a file with the template that replaces the checkpoint's.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { OptionError } from "./option_parser.ts";

/** @throws {OptionError} when the file cannot be read. */
export async function readTemplate(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  return readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    const problems: Readonly<Record<string, string>> = {
      ENOENT: "there is no such file",
      EISDIR: "it is a folder",
    };
    const problem = problems[cause.code ?? ""] ?? cause.message;
    throw new OptionError(`Cannot use option --chat-template ${path}: ${problem}`, { cause });
  });
}

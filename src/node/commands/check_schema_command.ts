/**
 * The command `wisp check-schema`: what a JSON schema means here.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { InvalidRequestError } from "../../errors.ts";
import type { JsonSchemaOptions } from "../../grammar/schema/json_schema.ts";
import type { SchemaReport } from "../../grammar/schema_report.ts";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import { CHECK_SCHEMA_OPTIONS } from "../options/options.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp check-schema [options] FILE

Tells how a JSON schema is enforced: its keywords, what of it is ignored or left out, how large its
grammar is, and an answer that fits. Ends with exit code 1 where the schema is refused, and tells why.
`;

/**
 * Prints the report to the standard output.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {InvalidRequestError} when the file cannot be read.
 * @throws {GrammarError} when the schema is refused.
 */
export async function checkSchemaCommand(
  args: readonly string[],
  { stdout }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(CHECK_SCHEMA_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(CHECK_SCHEMA_OPTIONS)}\n`);
    return;
  }
  const [file, surplus] = positionals;
  if (file === undefined) throw new OptionError("Cannot check a schema: its file is missing");
  if (surplus !== undefined) {
    throw new OptionError(`Cannot use argument "${surplus}": one file is expected`);
  }
  const { reportSchema } = await import("../../grammar/schema_report.ts");
  const report = reportSchema(await read(file), {
    maxWhitespace: options.jsonWhitespace,
    dialect: options.jsonDialect,
    unknown: options.jsonUnknown,
    order: options.jsonOrder,
  } satisfies JsonSchemaOptions);
  stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : format(report));
}

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new InvalidRequestError(`Cannot read "${file}": ${(error as Error).message}`);
  }
}

function format({
  dialect,
  schemas,
  keywords,
  warnings,
  nodes,
  compileTime,
  example,
}: SchemaReport): string {
  const counts = Object.entries(keywords).map(([name, count]) => `${name} ${count}`);
  return [
    `Schema:    ${schemas} in all, ${dialect}`,
    `Enforced:  ${counts.length === 0 ? "nothing: any JSON fits" : counts.join(", ")}`,
    `Grammar:   ${nodes} nodes, compiled in ${compileTime.toFixed(0)} ms`,
    ...warnings.map((warning) => `Warning:   ${warning}`),
    `Example:   ${example ?? "none was found"}`,
    "",
  ].join("\n");
}

/**
 * The command `wisp doctor`: what this machine has for serving models, and what it lacks.
 *
 * @module
 */

import type { CommandContext } from "../commands/command_context.ts";
import {
  formatOptions,
  OptionError,
  type OptionTable,
  parseOptions,
} from "../options/option_parser.ts";
import { ENGINE_OPTIONS, INSPECT_OPTIONS, LAUNCH_OPTIONS } from "../options/options.ts";
import { packageVersion } from "../package_root.ts";
import type { AdapterFindings } from "./doctor_adapter.ts";

const USAGE = `Usage: wisp doctor [options]

Tells what this machine has for serving models, and what it lacks: versions, the adapter with its
driver, features and limits, memory, folders, the server's address, variables that are set. The first
thing to put into a report of a problem; secrets are left out. Nothing is downloaded. The exit code is
0 when an adapter works, 1 when none does, 2 when an option or WISP_ADAPTER names none.
`;

export const DOCTOR_OPTIONS = {
  adapter: ENGINE_OPTIONS.adapter,
  host: LAUNCH_OPTIONS.host,
  port: LAUNCH_OPTIONS.port,
  json: { ...INSPECT_OPTIONS.json, help: "print JSON, with sizes in bytes" },
  help: ENGINE_OPTIONS.help,
} as const satisfies OptionTable;

/**
 * Prints the report to the standard output.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} after the report, when no adapter works.
 */
export async function doctorCommand(
  args: readonly string[],
  { stdout }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(DOCTOR_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(DOCTOR_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  // Opening a device sets variables for drivers.
  const env = { ...process.env };
  const { examineAdapter } = await import("./doctor_adapter.ts");
  const { surroundings } = await import("./doctor_surroundings.ts");
  const { formatDoctor } = await import("./doctor_report.ts");
  let adapter: AdapterFindings | undefined;
  let fault: Error | undefined;
  try {
    adapter = await examineAdapter(options.adapter);
  } catch (error) {
    fault = error as Error;
  }
  const report = {
    healthy: fault === undefined,
    adapter: adapter ?? { problem: fault!.message },
    ...(await surroundings({ ...options, env, adapter, wisp: packageVersion() })),
  };
  stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatDoctor(report));
  if (fault !== undefined) throw fault;
}

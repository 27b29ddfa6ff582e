/**
 * The command `wisp compile_kernels`: compiles what a model runs with into the driver's cache.
 *
 * @module
 */

import { Logger } from "../observe/logger.ts";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import { COMPILE_OPTIONS } from "../options/options.ts";
import { lineReport } from "../serve/start_report.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp compile_kernels [options]

Compiles every kernel that a server with these options runs, so that its start finds them in the cache
of the GPU's driver. No weight is read. "wisp compile_deep_gemm" is the same.
`;

/** Pipelines that are told about by name. */
const SLOWEST = 3;

/**
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model cannot be had, or could not be started.
 */
export async function compileCommand(
  args: readonly string[],
  { stdout, stderr }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(COMPILE_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(COMPILE_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  const { compileModel } = await import("../serve/compile_model.ts");
  const begun = performance.now();
  const { pipelines } = await compileModel(options, lineReport(new Logger({ stderr })));
  const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(2)} s`;
  const total = seconds(performance.now() - begun);
  stdout.write(`Compiled ${pipelines.length} pipelines in ${total}\n`);
  const slowest = [...pipelines].sort((a, b) => b.milliseconds - a.milliseconds).slice(0, SLOWEST);
  for (const { label, milliseconds } of slowest) {
    stdout.write(`  ${seconds(milliseconds)} for ${label}\n`);
  }
}

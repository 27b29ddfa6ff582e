#!/usr/bin/env node
/**
 * The program `wisp`.
 *
 * @module
 */

import { exitOnBrokenPipe, runCommand } from "./command.ts";
import { filterDawnWarnings } from "./device/dawn_warnings.ts";
import type { StartEngine } from "./serve/start_engine.ts";

const startEngine: StartEngine = async (options, report, part) => {
  const { startEngine: start } = await import("./serve/start_engine.ts");
  return start(options, report, part);
};

const { stdout, stderr } = process;
for (const output of [stdout, stderr]) exitOnBrokenPipe(output, process.exit);
filterDawnWarnings();
const code = await runCommand(process.argv.slice(2), {
  startEngine,
  stdout,
  stderr,
  // Opened by the command that reads it.
  get stdin() {
    return process.stdin;
  },
});
// Handles of the GPU and of idle connections must not keep a finished program alive.
process.exit(code);

#!/usr/bin/env node
/**
 * The program `wisp`.
 *
 * @module
 */

import { exitOnBrokenPipe, runCommand } from "./command.ts";
import { startEngine } from "./start_engine.ts";

const { stdout, stderr } = process;
exitOnBrokenPipe(stdout, process.exit);
const code = await runCommand(process.argv.slice(2), { startEngine, stdout, stderr });
// Handles of the GPU and of idle connections must not keep a finished program alive.
process.exit(code);

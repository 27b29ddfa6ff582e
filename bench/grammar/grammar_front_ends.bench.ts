/**
 * What it costs to read a regular expression or an EBNF grammar and to compile it.
 *
 * @module
 */
import { cpuUsage } from "node:process";
import { expect, test } from "vitest";
import { compileAutomaton } from "../../src/grammar/automaton/compile_automaton.ts";
import { parseEbnf } from "../../src/grammar/ebnf/parse_ebnf.ts";
import { type Grammar, grammarOf } from "../../src/grammar/expression.ts";
import { parseRegex } from "../../src/grammar/regex/parse_regex.ts";
import { SAMPLE_EBNF } from "../../test/grammar/samples/ebnf_grammars.ts";

const COUNT = 1000;
/** Milliseconds of the processor for reading them all. */
const LIMIT = 1000;

/** Of the kinds that requests bring; `%` makes each of them a new one. */
const PATTERNS: readonly string[] = [
  String.raw`\d{3}-\d{4} %`,
  String.raw`^[\w.+-]+@([\w-]+\.)+%[a-z]{2,}$`,
  String.raw`^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T%$`,
  String.raw`((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d)/%`,
  "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}%$",
  "(yes|no|maybe|%)",
  "^#([0-9a-fA-F]{6}|[0-9a-fA-F]{3})%$",
  String.raw`^(https?://)?[^\s/$.?#].[^\s]*%$`,
  "(?i)^(mr|mrs|dr)\\.? [a-z]+%$",
  String.raw`"name": "[^"\\]{1,64}", "id": %`,
  String.raw`\[(\d{2}:){2}\d{2}\] (DEBUG|INFO|WARN|ERROR): .+%`,
  "[一-龥]{2,8}%",
  String.raw`^\p{L}[\p{L}\p{N} '-]{0,99}%$`,
  "(?P<major>0|[1-9]\\d*)\\.(?P<minor>0|[1-9]\\d*)\\.%",
  ".*%.*",
];

/** Milliseconds of the processor so far, whatever else the machine does. */
function processorTime(): number {
  const { user, system } = cpuUsage();
  return (user + system) / 1000;
}

function measure(name: string, read: (index: number) => Grammar): number {
  const start = processorTime();
  const grammars = Array.from({ length: COUNT }, (_, i) => read(i));
  const middle = processorTime();
  const nodes = grammars.reduce((sum, grammar) => sum + compileAutomaton(grammar).nodes.length, 0);
  const reading = middle - start;
  const compiling = processorTime() - middle;
  console.log(
    `${COUNT} ${name}: read in ${reading.toFixed(0)} ms, ` +
      `compiled in ${compiling.toFixed(0)} ms to ${nodes} nodes`,
  );
  return reading;
}

test("reading regular expressions", () => {
  const pattern = (i: number) => PATTERNS[i % PATTERNS.length]!.replace("%", `${i}`);
  const reading = measure("regular expressions", (i) => grammarOf(parseRegex(pattern(i))));
  expect(reading).toBeLessThan(LIMIT);
});

test("reading EBNF grammars", () => {
  const source = (i: number) => `${SAMPLE_EBNF[i % SAMPLE_EBNF.length]!.ebnf}\nunused ::= "${i}"`;
  const reading = measure("EBNF grammars", (i) => parseEbnf(source(i)));
  expect(reading).toBeLessThan(LIMIT);
});

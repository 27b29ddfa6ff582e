/** The table of docs/simulation.md says what the command does. `WISP_UPDATE_README=1` writes it. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { SimulationReport } from "../../src/simulate/simulate.ts";
import { startCommand } from "../support/package/run_command.ts";

const page = fileURLToPath(new URL("../../docs/simulation.md", import.meta.url));
const isUpdate = process.env.WISP_UPDATE_README === "1";
const isFull = process.env.WISP_TEST_FULL === "1";

const SMALLER = "--memory 80G --bandwidth 2880GB/s";
/** The weights and devices that the family is served with. */
const ROWS: readonly (readonly [weights: string, options: string])[] = [
  ["FP8, as published", "--devices 8 --memory 141G"],
  ["FP8, as published", `--devices 16 ${SMALLER}`],
  ["BF16", "--devices 16 --memory 141G --weight-type bf16"],
  ["BF16", `--devices 32 ${SMALLER} --weight-type bf16`],
  ["AWQ, 4 bits", `--devices 8 ${SMALLER} --weight-type awq`],
  ["int8", `--devices 16 ${SMALLER} --weight-type int8`],
  ["int8", `--devices 32 ${SMALLER} --weight-type int8`],
];
const HEADER = `| weights | options | weights of a device | tokens cached | prompt, tokens/s | step of 1, 32 requests | tokens/s of 32 | bound |
|---|---|---|---|---|---|---|---|`;

async function rowOf([weights, options]: (typeof ROWS)[number]): Promise<string> {
  const args = ["simulate", ...options.split(" "), "--batches", "1,32", "--json"];
  const { code, stdout, stderr } = startCommand(args);
  expect(await code, stderr()).toBe(0);
  const { memory, cache, prefill, decode } = JSON.parse(stdout()) as SimulationReport;
  const [one, many] = decode;
  const ms = (seconds: number) => (1e3 * seconds).toPrecision(3);
  const cells = [
    weights,
    `\`${options}\``,
    `${(memory.weightBytes / 2 ** 30).toFixed(1)} GiB`,
    cache.tokens.toLocaleString("en-US"),
    prefill.tokensPerSecond.toPrecision(3),
    `${ms(one!.seconds)}, ${ms(many!.seconds)} ms`,
    many!.tokensPerSecond.toPrecision(3),
    many!.bound,
  ];
  return `| ${cells.join(" | ")} |`;
}

test("docs/simulation.md answers how many devices the weights take", async () => {
  const text = readFileSync(page, "utf8");
  if (isUpdate) {
    const rows: string[] = [];
    for (const row of ROWS) rows.push(await rowOf(row));
    const table = `<!-- sizing -->\n\n${HEADER}\n${rows.join("\n")}\n\n<!-- /sizing -->`;
    writeFileSync(
      page,
      text.replace(/<!-- sizing -->[\s\S]*<!-- \/sizing -->/, () => table),
    );
    return;
  }
  for (const [, options] of ROWS) expect(text).toContain(`| \`${options}\` |`);
  // Each takes seconds: all of them in the long campaign.
  for (const row of isFull ? ROWS : ROWS.slice(4, 5)) expect(text).toContain(await rowOf(row));
});

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { bytesPerToken } from "../src/cache/kv_cache.ts";
import { ConfigReader } from "../src/checkpoint/config.ts";
import { memorySource } from "../src/checkpoint/memory_source.ts";
import { detectQuantization } from "../src/checkpoint/quantization_config/detect_quantization.ts";
import { configFormats, layOut } from "../src/engine/load/sizing.ts";
import { architectureOf } from "../src/models/architectures.ts";
import { kvCacheShape } from "../src/models/model.ts";
import type { OptionRow, OptionTable } from "../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../src/node/options/options.ts";
import { ROUTER_OPTIONS } from "../src/node/route/router_options.ts";
import { UNSUPPORTED_ENDPOINTS } from "../src/server/routes/unsupported_endpoints.ts";
import { DEEPSEEK_V2_LITE, DEEPSEEK_V3, KIMI_K2 } from "./support/checkpoints/deepseek_configs.ts";
import {
  GPT_OSS_20B,
  GPT_OSS_120B,
  LLAMA_31_8B,
  LLAMA_32_1B,
  MISTRAL_7B_V03,
  QWEN3_8B,
  QWEN3_06B,
  QWEN3_30B_A3B,
  QWEN25_7B,
} from "./support/checkpoints/gqa_configs.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

/** The option table, as docs/options.md shows it. */
function optionTable(table: OptionTable): string {
  const rows = Object.values(table);
  const works = rows.filter(({ neutral }) => neutral === undefined);
  const reserved = rows.filter(({ neutral }) => neutral !== undefined);
  const lines = works.map(({ flags, value, choices, kind, help, defaultText, ...row }) => {
    const shown = kind === "flag" ? "" : ` ${value ?? choices?.join("\\|") ?? "N"}`;
    const fallback = defaultText ?? (kind === "flag" ? "" : (row.default ?? ""));
    return `| \`${flags.join("`, `")}\`${shown} | ${fallback} | ${help} |`;
  });
  return `
| option | default | |
|---|---|---|
${lines.join("\n")}
${reserved.length === 0 ? "" : refusedOptions(reserved)}`;
}

function refusedOptions(rows: readonly OptionRow[]): string {
  const names = rows.map(({ flags }) => `\`${flags[0]}\``).join(", ");
  return `
The program knows these options too and refuses them, each with an error that names it, until their capability exists; it takes a value that asks for what is done anyway: ${names}.
`;
}

/** Endpoints that answer why they are not here, those of one reason in one row. */
function absentTable(): string {
  const reasons = new Set(UNSUPPORTED_ENDPOINTS.values());
  const rows = [...reasons].map((reason) => {
    const paths = [...UNSUPPORTED_ENDPOINTS].filter(([, own]) => own === reason);
    return `| ${paths.map(([path]) => `\`${path}\``).join(", ")} | ${reason} |`;
  });
  return `
| not here | because |
|---|---|
${rows.join("\n")}

`;
}

/** Models that people ask about, by their id on the hub. */
const MODELS: readonly (readonly [id: string, config: object])[] = [
  ["Qwen/Qwen3-0.6B", QWEN3_06B],
  ["meta-llama/Llama-3.2-1B", LLAMA_32_1B],
  ["mistralai/Mistral-7B-v0.3", MISTRAL_7B_V03],
  ["Qwen/Qwen2.5-7B", QWEN25_7B],
  ["meta-llama/Llama-3.1-8B", LLAMA_31_8B],
  ["Qwen/Qwen3-8B", QWEN3_8B],
  ["deepseek-ai/DeepSeek-V2-Lite", DEEPSEEK_V2_LITE],
  ["openai/gpt-oss-20b", GPT_OSS_20B],
  ["Qwen/Qwen3-30B-A3B", QWEN3_30B_A3B],
  ["openai/gpt-oss-120b", GPT_OSS_120B],
  ["deepseek-ai/DeepSeek-V3", DEEPSEEK_V3],
  ["moonshotai/Kimi-K2-Instruct", KIMI_K2],
];

const PUBLISHED: Readonly<Record<string, string>> = {
  none: "BF16",
  fp8_block: "FP8 128x128",
  mxfp4: "MXFP4 experts, BF16",
};

/** What the weights and the cache of each of them take on the GPU. */
async function memoryTable(): Promise<string> {
  const rows = await Promise.all(
    MODELS.map(async ([id, config]) => {
      const reader = new ConfigReader(config, { file: "config.json" });
      const quantization = await detectQuantization(memorySource({}), reader);
      const definition = architectureOf(reader).define(reader, quantization);
      const gigabytes = (uploadTo?: { readonly dtype: "int4" | "int8" }) => {
        const formats = configFormats(quantization, { plain: "BF16", uploadTo });
        const billions = layOut(definition, formats).weightBytes / 1e9;
        return `${billions >= 100 ? billions.toFixed(0) : billions.toPrecision(3)} GB`;
      };
      const isPlain = quantization.method === "none";
      const cells = [
        `\`wisp serve ${id}\``,
        definition.architecture,
        PUBLISHED[quantization.method],
        gigabytes(),
        isPlain ? gigabytes({ dtype: "int8" }) : "",
        isPlain ? gigabytes({ dtype: "int4" }) : "",
        `${(bytesPerToken(kvCacheShape(definition.shape, "bf16")) / 1024).toFixed(0)} KiB`,
      ];
      return `| ${cells.join(" | ")} |`;
    }),
  );
  return `
| command | architecture | published as | weights on the GPU | \`--quantization int8\` | \`int4\` | cache per token |
|---|---|---|---|---|---|---|
${rows.join("\n")}

`;
}

test.each([
  ["docs/http.md", "absent", absentTable],
  ["docs/options.md", "options", () => optionTable(LAUNCH_OPTIONS)],
  ["docs/router.md", "options", () => optionTable(ROUTER_OPTIONS)],
  ["docs/models.md", "memory", memoryTable],
] as const)(
  "%s: the table of %s is what the code says (WISP_UPDATE_README=1 writes it)",
  async (path, name, makeTable) => {
    const page = join(root, path);
    const text = readFileSync(page, "utf8");
    const marked = new RegExp(`(<!-- ${name} -->\n).*?(<!-- /${name} -->)`, "s");
    expect(text).toMatch(marked);
    const table = await makeTable();
    const wanted = text.replace(marked, (_, begin, end) => begin + table + end);
    if (process.env.WISP_UPDATE_README === "1") writeFileSync(page, wanted);
    expect(readFileSync(page, "utf8")).toBe(wanted);
  },
);

/**
 * The architectures that there are.
 *
 * Adding one: a file beside this one that exports a `ModelArchitecture`, and a line in the list.
 *
 * @module
 */

import type { ConfigReader } from "../checkpoint/config.ts";
import { UnsupportedError } from "../errors.ts";
import { deepseekV2 } from "./deepseek_v2.ts";
import { deepseekV3 } from "./deepseek_v3.ts";
import { gptOss } from "./gpt_oss.ts";
import { llama } from "./llama.ts";
import { mistral } from "./mistral.ts";
import type { ModelArchitecture } from "./model.ts";
import { qwen2 } from "./qwen2.ts";
import { qwen3 } from "./qwen3.ts";
import { qwen3Moe } from "./qwen3_moe.ts";
import { deepseekVl2 } from "./vision/deepseek_vl2.ts";
import { idefics3 } from "./vision/idefics3.ts";
import { llava } from "./vision/llava.ts";
import { qwen25Vl } from "./vision/qwen2_5_vl.ts";

const ARCHITECTURES: readonly ModelArchitecture[] = [
  deepseekV2,
  deepseekV3,
  deepseekVl2,
  gptOss,
  idefics3,
  llama,
  llava,
  mistral,
  qwen2,
  qwen25Vl,
  qwen3,
  qwen3Moe,
];

/**
 * The architecture that config.json names.
 *
 * @throws {UnsupportedError} naming it and the known ones.
 */
export function architectureOf(config: ConfigReader): ModelArchitecture {
  const names = config.strings("architectures");
  const known = ARCHITECTURES.find((one) => names.some((name) => one.names.includes(name)));
  if (known !== undefined) return known;
  const list = ARCHITECTURES.flatMap((one) => one.names).join(", ");
  const code = config.has("auto_map")
    ? "it needs code of its own, and no remote code is ever run; "
    : "";
  throw new UnsupportedError(
    `architecture ${names.join(", ") || "none"}`,
    `${code}known are ${list}`,
  );
}

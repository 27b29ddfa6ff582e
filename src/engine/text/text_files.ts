/**
 * The files of a model that tell of its text, as threads share them.
 *
 * @module
 */
import { readOptionalBytes } from "../../checkpoint/json_file.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { TEXT_FILES } from "../load/text_model.ts";
import type { TextFiles } from "./text_messages.ts";

/** @throws {CheckpointError} when one of them is too long. */
export async function readTextFiles(source: WeightSource): Promise<TextFiles> {
  const files: Record<string, TextFiles[string]> = {};
  for (const name of TEXT_FILES) {
    const bytes = await readOptionalBytes(source, name);
    if (bytes === undefined) continue;
    files[name] = new Uint8Array(new SharedArrayBuffer(bytes.length));
    files[name].set(bytes);
  }
  return files;
}

import { expect, test } from "vitest";
import { modelNameOf } from "../../../src/server/model_name.ts";

test.each([
  ["/opt/wisp/examples/tiny-deepseek-v3", "tiny-deepseek-v3"],
  ["/models/name/", "name"],
  ["C:\\models\\name", "name"],
  ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"],
  ["Qwen/Qwen3-0.6B@v1.0", "Qwen/Qwen3-0.6B"],
  ["gpt2", "gpt2"],
  ["/cache/hub/models--Qwen--Qwen3-0.6B/snapshots/0123abcd", "Qwen/Qwen3-0.6B"],
  ["https://host.test/models/name/?a=b", "name"],
  ["/", "/"],
])("a model loaded from %s is served as %s", (path, name) => {
  expect(modelNameOf(path)).toBe(name);
});

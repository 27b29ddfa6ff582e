import { describe, expect, test } from "vitest";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { loadText, thinkingVariables } from "../../../src/engine/load/text_model.ts";
import { byteLevelJson } from "../../text/small_tokenizers.ts";

const USER = [{ role: "user", content: "Hi" }];

/** Loads the text part of a checkpoint of these files; objects are written as JSON. */
function load(
  files: Readonly<Record<string, unknown>>,
  chatTemplate?: string,
  chatFamily?: string,
) {
  const encoder = new TextEncoder();
  const bytes = Object.entries({ "config.json": {}, ...files }).map(([name, content]) => [
    name,
    encoder.encode(typeof content === "string" ? content : JSON.stringify(content)),
  ]);
  return loadText(memorySource(Object.fromEntries(bytes)), { chatTemplate, chatFamily });
}

function withTokens(...contents: string[]) {
  const json = byteLevelJson();
  const more = contents.map((content, i) => ({ id: 300 + i, content, special: true }));
  return { ...json, added_tokens: [...json.added_tokens, ...more] };
}

describe("loadText, chat templates", () => {
  const render = async (files: object, chatTemplate?: string) => {
    const text = await load({ "tokenizer.json": byteLevelJson(), ...files }, chatTemplate);
    const chat = text.createChat();
    return (tools?: unknown[]) => chat.render({ messages: USER, tools, addGenerationPrompt: true });
  };
  const tools = [{ type: "function", function: { name: "f" } }];
  const both = { default: "plain", tool_use: "tools" };
  const list = Object.entries(both).map(([name, template]) => ({ name, template }));

  test.each([
    ["text", "plain", ["plain", "plain"]],
    ["a list of names", list, ["plain", "tools"]],
    ["an object of names", both, ["plain", "tools"]],
  ])("chat_template may be %s", async (_, chat_template, [plain, withTools]) => {
    const prompt = await render({ "tokenizer_config.json": { chat_template } });
    expect([prompt(), prompt(tools)]).toEqual([plain, withTools]);
  });

  test("files win over the configuration, and the user's over both", async () => {
    const config = { "tokenizer_config.json": { chat_template: "config" } };
    const json = { ...config, "chat_template.json": { chat_template: "json" } };
    const jinja = { ...json, "chat_template.jinja": "jinja" };
    expect((await render(config))()).toBe("config");
    expect((await render(json))()).toBe("json");
    expect((await render(jinja))()).toBe("jinja");
    expect((await render(jinja, "mine"))()).toBe("mine");
    await expect(render({ "chat_template.json": {} })).rejects.toThrow(
      "Cannot load chat_template.json (chat_template): it has no text",
    );
  });

  test("the user's family stands in place of the one that is recognised", async () => {
    const files = {
      "config.json": { model_type: "llama" },
      "tokenizer.json": withTokens("<|im_start|>", "<|im_end|>"),
    };
    const { family, createChat, eosTokenIds } = await load(files, undefined, "qwen3");
    expect(family.name).toBe("qwen3");
    expect(createChat().render({ messages: USER, addGenerationPrompt: true })).toContain(
      "<|im_start|>user",
    );
    expect(eosTokenIds).toContain(301);
    expect((await load(files)).eosTokenIds).not.toContain(301);
    await expect(load(files, undefined, "qwen9")).rejects.toThrow(
      "Cannot use chatFamily qwen9: it must be one of gpt-oss",
    );
  });

  test("a checkpoint without one gets its family's, if it has the tokens", async () => {
    const files = {
      "config.json": { model_type: "qwen3", architectures: ["Qwen3ForCausalLM"] },
      "tokenizer.json": withTokens("<|im_start|>", "<|im_end|>"),
    };
    expect((await render(files))()).toBe("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    const without = await render({ ...files, "tokenizer.json": byteLevelJson() });
    expect(without).toThrow("Cannot render messages: the model has no chat template");
  });
});

describe("loadText, roles and added tokens", () => {
  test("a token may be text or an object, here or in special_tokens_map.json", async () => {
    const { tokenizer } = await load({
      "tokenizer.json": byteLevelJson(),
      "tokenizer_config.json": { eos_token: { __type: "AddedToken", content: "</s>" } },
      "special_tokens_map.json": { bos_token: { content: "<s>" }, eos_token: "~" },
    });
    expect([tokenizer.bosTokenId, tokenizer.eosTokenId]).toEqual([256, 257]);
    const older = await load({
      "tokenizer.json": byteLevelJson(),
      "special_tokens_map.json": { bos_token: "<s>", eos_token: { content: "</s>" } },
    });
    expect([older.tokenizer.bosTokenId, older.tokenizer.eosTokenId]).toEqual([256, 257]);
  });

  test.each([
    ["a list of texts", ["<tag>", "~"]],
    ["a list of objects", [{ content: "<tag>" }, { content: "~" }]],
    ["roles of its own", { image_token: "<tag>", other_token: "~" }],
  ])("extra_special_tokens may be %s", async (_, extra_special_tokens) => {
    const { tokenizer } = await load({
      "tokenizer.json": byteLevelJson(),
      "tokenizer_config.json": {
        extra_special_tokens,
        added_tokens_decoder: { "400": { content: "<call>", special: true } },
      },
    });
    const ids = tokenizer.encode("a<tag>~<call>");
    expect(ids).toEqual([97, 258, 126, 400]);
    expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe("a");
  });

  test("what ends a sequence is gathered from all files and the family", async () => {
    const files = {
      "config.json": { model_type: "llama", eos_token_id: 1 },
      "generation_config.json": { eos_token_id: [2, 3] },
      "tokenizer_config.json": { eos_token: "</s>" },
      "tokenizer.json": withTokens("<|start_header_id|>", "<|eot_id|>", "<|eom_id|>"),
    };
    const { eosTokenIds, family } = await load(files);
    expect(family.name).toBe("llama-3");
    expect([...eosTokenIds]).toEqual([1, 2, 3, 257, 301, 302]);
  });
});

describe("loadText, gpt-oss", () => {
  const config = { model_type: "gpt_oss", architectures: ["GptOssForCausalLM"] };

  test("without tokenizer.json the harmony encoding serves, and a template of ours", async () => {
    const text = await load({ "config.json": config });
    expect(text.family.name).toBe("gpt-oss");
    expect([...text.eosTokenIds]).toEqual([200002, 200012]);
    const prompt = text.createChat().render({ messages: USER, addGenerationPrompt: true });
    const ids = text.tokenizer.encode(prompt);
    // <|start|>system<|message|> at the start, <|start|>assistant at the end.
    expect(ids.slice(0, 3)).toEqual([200006, 17360, 200008]);
    expect(ids.slice(-2)).toEqual([200006, 173781]);
    expect(text.tokenizer.decode(ids)).toBe(prompt);
    expect([text.tokenizer.bosTokenId, text.tokenizer.addsBos]).toEqual([199998, false]);
  });

  test("the checkpoint's own tokenizer.json wins", async () => {
    const text = await load({ "config.json": config, "tokenizer.json": withTokens("<|call|>") });
    expect(text.tokenizer.encode("a<|call|>")).toEqual([97, 300]);
    expect([...text.eosTokenIds]).toEqual([300]);
  });
});

describe("loadText, other formats of a tokenizer", () => {
  const { vocab } = byteLevelJson().model;
  const classic = {
    "vocab.json": { ...vocab, he: 256, Ġhe: 257, "<|endoftext|>": 258 },
    "merges.txt": "#version: 0.2\nh e\nĠ he\n",
    "added_tokens.json": { "<|im_end|>": 259 },
    "tokenizer_config.json": { tokenizer_class: "Qwen2Tokenizer" },
  };

  test("vocab.json and merges.txt serve where the class says how text is split", async () => {
    const { tokenizer } = await load(classic);
    // The accent is composed first: e and U+0301 become U+00E9.
    expect(tokenizer.encode("he he12<|im_end|>e\u0301")).toEqual([
      256, 257, 49, 50, 259, 0xc3, 0xa9,
    ]);
    expect([tokenizer.eosTokenId, tokenizer.bosTokenId]).toEqual([258, undefined]);
  });

  test("they are refused where nothing says so, or a file is torn", async () => {
    const other = { ...classic, "tokenizer_config.json": { tokenizer_class: "OtherTokenizer" } };
    await expect(load(other)).rejects.toThrow(
      /^Cannot load tokenizer_config\.json \(tokenizer_class\): without a tokenizer\.json .* it is "OtherTokenizer"$/,
    );
    const inherited = { ...classic, "tokenizer_config.json": { tokenizer_class: "constructor" } };
    await expect(load(inherited)).rejects.toThrow(/one of .* it is "constructor"$/);
    await expect(load({ ...classic, "merges.txt": "a b c\n" })).rejects.toThrow(
      'Cannot load merges.txt: "a b c" is not two pieces',
    );
  });

  test.each(["tokenizer.model", "tekken.json", "tiktoken.model", "vocab.json"])(
    "a checkpoint with nothing but %s is told what it needs",
    async (name) => {
      await expect(load({ [name]: "x" })).rejects.toThrow(
        `Cannot load ${name}: this format is not read, the model's tokenizer.json is needed beside it`,
      );
    },
  );

  test("a checkpoint without any is told which file is missing", async () => {
    await expect(load({})).rejects.toThrow("Cannot load tokenizer.json: memory has no such file");
  });
});

test("model type and the variables about thinking that the template has are known", async () => {
  const files = {
    "config.json": { model_type: "qwen3" },
    "tokenizer.json": byteLevelJson(),
    "chat_template.jinja": "{% if enable_thinking %}{{ message.thinking }}{% endif %}",
  };
  const text = await load(files);
  expect(text.description).toMatchObject({ modelType: "qwen3" });
  expect(thinkingVariables(text.createChat().variables)).toEqual(["enable_thinking"]);
  const plain = { "config.json": { model_type: 5 }, "tokenizer.json": byteLevelJson() };
  expect((await load(plain)).description).toMatchObject({ modelType: undefined });
});

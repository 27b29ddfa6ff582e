import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isTextFile } from "../../../src/checkpoint/model_files.ts";
import { isRevision, parseModelId } from "../../../src/checkpoint/model_id.ts";
import { CheckpointError } from "../../../src/errors.ts";
import { hubSettings } from "../../../src/node/hub/hub_settings.ts";
import { missingFiles } from "../../../src/node/hub/model_files.ts";
import {
  MissingModelError,
  type ResolveOptions,
  resolveModel,
} from "../../../src/node/hub/resolve_model.ts";
import { OptionError } from "../../../src/node/options/option_parser.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";

let root: string;
let env: Readonly<Record<string, string>>;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "wisp-resolve-"));
  env = { HF_HUB_CACHE: root };
});

afterEach(() => {
  rmSync(root, { recursive: true });
});

function write(path: string, text = ""): void {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text);
}

/** Puts a model into the cache, as the hub's own tools do. */
function cache(files: readonly string[], folder = "models--org--name", revision = "main"): void {
  write(`${folder}/refs/${revision}`, COMMIT);
  for (const file of files) {
    const isIndex = file === "model.safetensors.index.json";
    const map = { a: "model-00001-of-00002.safetensors", b: "model-00002-of-00002.safetensors" };
    write(`${folder}/blobs/${file}-blob`, isIndex ? JSON.stringify({ weight_map: map }) : "{}");
    const snapshot = join(root, folder, "snapshots", COMMIT);
    mkdirSync(snapshot, { recursive: true });
    symlinkSync(`../../blobs/${file}-blob`, join(snapshot, file));
  }
}

const SMALL = ["config.json", "tokenizer.json"];
const COMPLETE = [...SMALL, "model.safetensors"];

async function refusal(
  model: string,
  revision?: string,
  options: ResolveOptions = {},
): Promise<Error> {
  const resolving = resolveModel(model, { env, revision, ...options });
  return resolving.then(
    () => expect.unreachable(`${model} was resolved`),
    (error: unknown) => error as Error,
  );
}

describe("resolveModel", () => {
  test("takes a folder that exists, also where it could be an id", async () => {
    expect(await resolveModel(root, { env })).toEqual({ name: root, folder: root });
    cache(COMPLETE, "models--src--node");
    // The tests run in the root of the project.
    expect(await resolveModel("src/node", { env })).toEqual({
      name: "src/node",
      folder: "src/node",
    });
  });

  test.each([
    ["org/name", "models--org--name", "main"],
    ["gpt2", "models--gpt2", "main"],
    ["org/name@v1.0", "models--org--name", "v1.0"],
    ["org/name@refs/pr/1", "models--org--name", "refs/pr/1"],
    [`org/name@${COMMIT}`, "models--org--name", "main"],
  ])("finds %s", async (model, folder, revision) => {
    cache(COMPLETE, folder, revision);
    expect(await resolveModel(model, { env })).toEqual({
      name: model,
      folder: join(root, folder, "snapshots", COMMIT),
      commit: COMMIT,
    });
  });

  test("takes the revision of the option", async () => {
    cache(COMPLETE, "models--org--name", "v2");
    expect((await resolveModel("org/name", { env, revision: "v2" })).commit).toBe(COMMIT);
    await expect(resolveModel("org/name", { env })).rejects.toThrow("revision main is not in");
  });

  test.each(["./org/name", "../name", "/no/such", "~/name", "a/b/c", "org/na me", "org--x/y", ""])(
    '"%s" is no id, so a folder was meant',
    async (model) => {
      const error = await refusal(model);
      expect(error).toBeInstanceOf(CheckpointError);
      expect(error.message).toBe(`Cannot load ${model}: there is no such folder on this machine`);
    },
  );

  test("a model that is not there: where it was looked for, and what fetches it", async () => {
    const error = await refusal("org/name");
    expect(error).toBeInstanceOf(MissingModelError);
    expect(error.message).toBe(
      `Cannot load org/name: there is no such folder, and revision main is not in ${root}; "wisp download org/name" fetches it`,
    );
    expect((await refusal("org/name", "v2")).message).toContain('"wisp download org/name@v2"');
  });

  test.each([
    [["config.json"], "tokenizer.json, model.safetensors"],
    [["tokenizer.json", "model.safetensors"], "config.json"],
    [SMALL, "model.safetensors"],
    [
      [...SMALL, "model.safetensors.index.json", "model-00002-of-00002.safetensors"],
      "model-00001-of-00002.safetensors",
    ],
    [
      [...SMALL, "model-00001-of-00002.safetensors"],
      "model.safetensors.index.json, model-00002-of-00002.safetensors",
    ],
  ])("a download of %j lacks %s", async (files, missing) => {
    cache(files);
    const error = await refusal("org/name");
    expect(error).toBeInstanceOf(MissingModelError);
    const folder = join(root, "models--org--name", "snapshots", COMMIT);
    expect(error.message).toBe(
      `Cannot load org/name: weights not fully downloaded: ${folder} lacks ${missing}; "wisp download org/name" goes on with it`,
    );
  });

  test("says how many files are half downloaded, and names no more than five", async () => {
    cache([...SMALL, "model-00003-of-00009.safetensors"]);
    write("models--org--name/blobs/x.incomplete", "half");
    expect((await refusal("org/name")).message).toContain(
      "model-00004-of-00009.safetensors, model-00005-of-00009.safetensors and 4 more (1 half downloaded)",
    );
  });

  test("a model that drafts may come without a tokenizer", async () => {
    cache(["config.json", "model.safetensors"]);
    expect((await refusal("org/name")).message).toContain("lacks tokenizer.json;");
    const found = await resolveModel("org/name", { env, withoutTokenizer: true });
    expect(found.commit).toBe(COMMIT);
  });

  test("a link to nothing is missing", async () => {
    cache(COMPLETE);
    rmSync(join(root, "models--org--name", "blobs", "model.safetensors-blob"));
    expect((await refusal("org/name")).message).toContain("lacks model.safetensors;");
  });

  test("refuses revisions that do not fit", async () => {
    for (const [model, revision, message] of [
      ["src", "main", "Cannot use option --revision main: src is a folder and has no revisions"],
      ["org/name@a", "b", "Cannot use option --revision b: the model says org/name@a"],
      ["org/name", "../..", "Cannot use option --revision ../..: it is no branch"],
    ] as const) {
      for (const revisionOption of ["--revision", "--speculative-draft-model-revision"]) {
        const error = await refusal(model, revision, { revisionOption });
        expect(error).toBeInstanceOf(OptionError);
        expect(error.message).toContain(message.replace("--revision", revisionOption));
      }
    }
    expect((await refusal("package.json")).message).toContain("it is not a folder");
  });
});

test.each([
  ["name", "name", undefined],
  ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", undefined],
  ["a/b_c.d@feature/x", "a/b_c.d", "feature/x"],
])("parseModelId %s", (text, id, revision) => {
  expect(parseModelId(text)).toEqual({ id, revision });
});

test.each(["a/b.git", "a//b", "/a", "a/", ".a/b", "a/b-", "a..b", "a@", "a@../x", "x".repeat(97)])(
  "parseModelId refuses %s",
  (text) => {
    expect(parseModelId(text)).toBeUndefined();
  },
);

test.each(["", "a/", "/a", "a//b", "../a", "a/../b", "a/.b", "-a", "a b"])(
  'isRevision refuses "%s"',
  (text) => {
    expect(isRevision(text)).toBe(false);
  },
);

test.each([
  [{ HF_HUB_CACHE: "/a", HF_HOME: "/b", XDG_CACHE_HOME: "/c" }, "/a"],
  [{ HUGGINGFACE_HUB_CACHE: "/o", HF_HOME: "/b" }, "/o"],
  [{ HF_HUB_CACHE: "", HF_HOME: "/b", XDG_CACHE_HOME: "/c" }, "/b/hub"],
  [{ HF_HOME: "~/b" }, join(homedir(), "b/hub")],
  [{ XDG_CACHE_HOME: "/c" }, "/c/huggingface/hub"],
  [{}, join(homedir(), ".cache/huggingface/hub")],
])("hubSettings: the cache of %j is %s", (variables, folder) => {
  expect(hubSettings(variables).cacheFolder).toBe(folder);
});

test("hubSettings: the endpoint and offline mode", () => {
  expect(hubSettings({})).toMatchObject({ endpoint: "https://huggingface.co", offline: false });
  const variables = { HF_ENDPOINT: "http://a:8/x//", HF_HUB_OFFLINE: "TRUE" };
  expect(hubSettings(variables)).toMatchObject({ endpoint: "http://a:8/x", offline: true });
  expect(hubSettings(variables, "https://b").endpoint).toBe("https://b");
  expect(hubSettings({ HF_HUB_OFFLINE: "0" }).offline).toBe(false);
  expect(() => hubSettings({}, "ftp://x")).toThrow("Cannot use option --endpoint ftp://x: it must");
  expect(() => hubSettings({ HF_ENDPOINT: "hub" })).toThrow("Cannot use HF_ENDPOINT hub: it must");
});

test("missingFiles leaves an index that is none to its reader", async () => {
  for (const name of [...SMALL, "model.safetensors.index.json"]) write(`m/${name}`, "no json");
  expect(await missingFiles(join(root, "m"))).toEqual([]);
});

test.each([
  ["special_tokens_map.json", true],
  ["tokenizer.model", true],
  ["merges.txt", true],
  ["chat_template.json", true],
  ["chat_template.jinja", true],
  ["quantize_config.json", true],
  ["qwen.tiktoken", true],
  ["pytorch_model.bin.index.json", false],
  ["trainer_state.json", false],
  ["training_args.bin", false],
  ["modeling.py", false],
  ["README.md", false],
])("isTextFile(%s) is %s", (name, is) => {
  expect(isTextFile(name)).toBe(is);
});

/** Section 2.1 of the specification: the body of `POST /generate`. */
import { describe, expect, test } from "vitest";
import { Fields } from "../../../src/http/fields.ts";
import { createApp } from "../../../src/server/app.ts";
import { readPrompts } from "../../../src/server/fields/prompt_fields.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import {
  answer,
  errorMessage,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";

function setUp() {
  const engine = new ScriptedEngine();
  return { engine, app: createApp(engine) };
}

describe("text, input_ids and input_embeds", () => {
  test("text is a prompt", async () => {
    const { engine, app } = setUp();
    const response = await post(app, "/generate", { text: "abc" });
    expect(response.status).toBe(200);
    expect((await answer<GenerateAnswer>(response)).text).toBe("abc");
    expect(engine.requests).toEqual([{ prompt: "abc" }]);
  });

  test("input_ids are token ids", async () => {
    const { engine, app } = setUp();
    const response = await post(app, "/generate", { input_ids: [97, 98] });
    expect((await answer<GenerateAnswer>(response)).text).toBe("ab");
    expect(engine.requests).toEqual([{ tokens: [97, 98] }]);
  });

  test.each([
    ["a list of texts", { text: ["ab", "c"] }],
    ["a list of lists of ids", { input_ids: [[97, 98], [99]] }],
  ])("%s is a batch", async (_, body) => {
    const { app } = setUp();
    const response = await post(app, "/generate", body);
    const answers = await answer<GenerateAnswer[]>(response);
    expect(answers.map(({ text }) => text)).toEqual(["ab", "c"]);
  });

  test.each([{ text: ["ab"] }, { input_ids: [[97, 98]] }])(
    "a list of one answers a list of one (%j)",
    async (body) => {
      const { app } = setUp();
      const answers = await answer<GenerateAnswer[]>(await post(app, "/generate", body));
      expect(answers.map(({ text }) => text)).toEqual(["ab"]);
    },
  );

  test("many input_embeds are read in slices, between which other work has its turns", async () => {
    const { engine } = setUp();
    const width = engine.model.hiddenSize;
    const row = new Array<number>(width).fill(0.5);
    const input_embeds = Array.from({ length: Math.ceil(1_000_000 / width) }, () => row);
    const fields = new Fields({ input_embeds });
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    });
    const { prompts } = await readPrompts(fields, engine);
    clearInterval(timer);
    expect(prompts[0]!.inputEmbeds).toHaveLength(input_embeds.length);
    expect(turns).toBeGreaterThan(0);
  });

  test("input_embeds is a list of rows, as wide as the model", async () => {
    const { engine, app } = setUp();
    const rows = [
      [0, 1, -2.5, 1e-3],
      [4, 5, 6, 7],
    ];
    const response = await post(app, "/generate", { input_embeds: rows });
    expect((await answer<GenerateAnswer>(response)).meta_info.prompt_tokens).toBe(2);
    expect(engine.requests).toEqual([{ inputEmbeds: rows.map((row) => Float32Array.from(row)) }]);
  });

  test("a list of lists of rows is a batch, be it of one", async () => {
    const { engine, app } = setUp();
    const [short, long] = [[[1, 2, 3, 4]], [...Array(3)].map((_, i) => [i, 2, 3, 4])];
    const counts = async (input_embeds: unknown) => {
      const response = await post(app, "/generate", { input_embeds });
      const answers = await answer<GenerateAnswer[]>(response);
      return answers.map(({ meta_info }) => meta_info.prompt_tokens);
    };
    expect(await counts([short, long])).toEqual([1, 3]);
    expect(await counts([long])).toEqual([3]);
    expect(engine.requests[1]!.inputEmbeds).toHaveLength(3);
  });

  test.each([
    [{}, "Cannot generate: text, input_ids and input_embeds are all missing"],
    [
      { text: null, input_ids: null },
      "Cannot generate: text, input_ids and input_embeds are all missing",
    ],
    [
      { text: "a", input_ids: [1] },
      "Cannot use text and input_ids together: a request has one of them",
    ],
    [{ text: "" }, "text cannot be empty"],
    [{ text: [] }, "text cannot be empty"],
    [{ text: ["a", ""] }, "text[1] cannot be empty"],
    [{ text: ["a", 1] }, "text[1] must be a string, got 1"],
    [{ text: 5 }, "text must be a string, got 5"],
    [{ text: {} }, "text must be a string, got an object"],
    [{ input_ids: [] }, "input_ids cannot be empty"],
    [{ input_ids: [[1], []] }, "input_ids[1] cannot be empty"],
    [{ input_ids: [[1], 2] }, "input_ids[1] must be a list, got 2"],
    [{ input_ids: [1, [2]] }, "input_ids[1] must be an integer, got a list"],
    [{ input_ids: [1, 2.5] }, "input_ids[1] must be an integer, got 2.5"],
    [{ input_ids: [1, -2] }, "input_ids[1] must be at least 0 and at most 65535, got -2"],
    [{ input_ids: "1" }, 'input_ids must be a list, got "1"'],
    [
      { text: "a", input_embeds: [[1]] },
      "Cannot use text and input_embeds together: a request has one of them",
    ],
    [
      { input_ids: [1], input_embeds: [[1]] },
      "Cannot use input_ids and input_embeds together: a request has one of them",
    ],
    [{ input_embeds: 0.5 }, "input_embeds must be a list, got 0.5"],
    [{ input_embeds: [] }, "input_embeds cannot be empty"],
    [{ input_embeds: [0.5] }, "input_embeds[0] must be a list, got 0.5"],
    [{ input_embeds: [[]] }, "input_embeds[0] must have 4 numbers, the model's hidden size, got 0"],
    [{ input_embeds: [[1, 2, 3, 4], [1]] }, "input_embeds[1] must have 4 numbers"],
    [{ input_embeds: [[[1, 2, 3, 4]], []] }, "input_embeds[1] cannot be empty"],
    [{ input_embeds: [[[1, 2, 3, 4]], [[1, 2]]] }, "input_embeds[1][0] must have 4 numbers"],
    [{ input_embeds: [[1, 2, null, 4]] }, "input_embeds[0][2] must be a number, got null"],
    [{ input_embeds: [[1, "2", 3, 4]] }, 'input_embeds[0][1] must be a number, got "2"'],
    [{ input_embeds: [[1, 2, 3, 1e39]] }, "input_embeds[0][3] must be a number that f32 holds"],
    [{ input_ids: [1, 99_999] }, "input_ids[1] must be at least 0 and at most 65535, got 99999"],
  ])("%j is refused", async (body, message) => {
    const { engine, app } = setUp();
    const response = await post(app, "/generate", body);
    expect(response.status).toBe(400);
    expect((await errorMessage(response)).slice(0, message.length)).toBe(message);
    expect(engine.running).toEqual([]);
  });
});

describe("sampling_params", () => {
  test("one object serves the whole batch", async () => {
    const { engine, app } = setUp();
    await post(app, "/generate", { text: ["a", "b"], sampling_params: { temperature: 0 } });
    expect(engine.requests.map(({ sampling }) => sampling)).toEqual([
      { temperature: 0 },
      { temperature: 0 },
    ]);
  });

  test("a list has one object for each prompt, or null", async () => {
    const { engine, app } = setUp();
    const params = [{ temperature: 0 }, null, { top_k: 3 }];
    await post(app, "/generate", { text: ["a", "b", "c"], sampling_params: params });
    expect(engine.requests.map(({ sampling }) => sampling)).toEqual([
      { temperature: 0 },
      undefined,
      { topK: 3 },
    ]);
  });

  test.each([
    [{ text: "a", sampling_params: [{}] }, "sampling_params must be an object, got a list"],
    [{ text: "a", sampling_params: "x" }, 'sampling_params must be an object, got "x"'],
    [{ text: ["a", "b"], sampling_params: [{}] }, "sampling_params must have one item for each"],
    [{ text: ["a"], sampling_params: [1] }, "sampling_params[0] must be an object, got 1"],
    [{ text: ["a"], sampling_params: [{ top_p: 2 }] }, "sampling_params[0].top_p must be above 0"],
  ])("%j is refused", async (body, message) => {
    const response = await post(setUp().app, "/generate", body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });
});

describe("rid", () => {
  async function ids(body: object): Promise<string[]> {
    const answers = await answer<GenerateAnswer[]>(await post(setUp().app, "/generate", body));
    return answers.map(({ meta_info }) => meta_info.id);
  }

  test("names a single request", async () => {
    const response = await post(setUp().app, "/generate", { text: "a", rid: "mine" });
    expect((await answer<GenerateAnswer>(response)).meta_info.id).toBe("mine");
  });

  test("is numbered in a batch", async () => {
    expect(await ids({ text: ["a", "b"], rid: "mine" })).toEqual(["mine_0", "mine_1"]);
  });

  test("may be a list in a batch", async () => {
    expect(await ids({ text: ["a", "b"], rid: ["x", "y"] })).toEqual(["x", "y"]);
  });

  test.each([
    [{ text: "a", rid: ["x"] }, "rid must be a string"],
    [{ text: "a", rid: "" }, "rid cannot be empty"],
    [{ text: "a", rid: 7 }, "rid must be a string, got 7"],
    [{ text: ["a", "b"], rid: ["x"] }, "rid must have one item for each of the 2 prompts, got 1"],
    [{ text: ["a", "b"], rid: ["x", "x"] }, "Cannot use rid: it names two prompts alike"],
  ])("%j is refused", async (body, message) => {
    const response = await post(setUp().app, "/generate", body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });
});

describe("log-probabilities", () => {
  const asked = async (body: object) => {
    const { engine, app } = setUp();
    expect((await post(app, "/generate", body)).status).toBe(200);
    return engine.requests.map(({ logprobs }) => logprobs);
  };

  test.each([
    { return_logprob: false },
    { return_logprob: [false, false] },
    { return_logprob: null, logprob_start_len: -1, top_logprobs_num: 0 },
    { return_text_in_logprobs: false, token_ids_logprob: [] },
    { logprob_start_len: 0 },
    { top_logprobs_num: 2 },
    { token_ids_logprob: [1] },
    { return_text_in_logprobs: true },
    { return_logprob: false, logprob_start_len: [0, 1], top_logprobs_num: [5, 0] },
    { return_logprob: [null, false], top_logprobs_num: [0, null], token_ids_logprob: [[], null] },
  ])("%j asks for none", async (fields) => {
    expect(await asked({ text: ["a", "b"], ...fields })).toEqual([undefined, undefined]);
  });

  test("return_logprob alone asks for the completion's, and the last prompt token without a value", async () => {
    expect(await asked({ text: "ab", return_logprob: true })).toEqual([{ promptStart: -1 }]);
  });

  test("of embeddings are asked for as those of tokens", async () => {
    const body = { input_embeds: [[1, 2, 3, 4]], return_logprob: true };
    expect(await asked(body)).toEqual([{ promptStart: -1 }]);
    expect(await asked({ ...body, logprob_start_len: 0 })).toEqual([{ promptStart: 0 }]);
  });

  test("one value serves the whole batch, a list has one for each prompt", async () => {
    const fields = {
      return_logprob: [true, false, true],
      logprob_start_len: [0, 5, null],
      top_logprobs_num: 2,
      token_ids_logprob: [[7], null, [8, 9]],
      return_text_in_logprobs: true,
    };
    expect(await asked({ text: ["a", "b", "c"], ...fields })).toEqual([
      { promptStart: 0, topCount: 2, tokenIds: [7], text: true },
      undefined,
      { promptStart: -1, topCount: 2, tokenIds: [8, 9], text: true },
    ]);
    const shared = { text: ["a", "b"], return_logprob: true, token_ids_logprob: [3, 4] };
    const one = { promptStart: -1, tokenIds: [3, 4] };
    expect(await asked(shared)).toEqual([one, one]);
  });

  test.each([
    [{ return_logprob: 1 }, "return_logprob must be true or false, got 1"],
    [{ return_logprob: [true] }, "return_logprob must be true or false, got a list"],
    [{ logprob_start_len: -2 }, "logprob_start_len must be at least -1, got -2"],
    [{ logprob_start_len: "0" }, 'logprob_start_len must be an integer, got "0"'],
    [{ top_logprobs_num: 1025 }, "top_logprobs_num must be at least 0 and at most 1024, got 1025"],
    [{ token_ids_logprob: [65536] }, "token_ids_logprob[0] must be at least 0 and at most 65535"],
    [{ token_ids_logprob: [[1]] }, "token_ids_logprob[0] must be an integer, got a list"],
    [{ return_text_in_logprobs: 1 }, "return_text_in_logprobs must be true or false, got 1"],
  ])("%j is refused", async (fields, message) => {
    const response = await post(setUp().app, "/generate", { text: "a", ...fields });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });

  test("lists need one item for each prompt", async () => {
    const body = { text: ["a", "b"], return_logprob: true };
    for (const [name, value] of [
      ["top_logprobs_num", [1]],
      ["token_ids_logprob", [[1]]],
    ]) {
      const response = await post(setUp().app, "/generate", { ...body, [name as string]: value });
      expect(await errorMessage(response)).toBe(
        `${name} must have one item for each of the 2 prompts, got 1`,
      );
    }
  });
});

describe("fields that are not supported yet", () => {
  test.each([
    { image_data: null, input_embeds: null, lora_path: null },
    { image_data: [] },
    { return_hidden_states: false, session_params: null, log_metrics: true },
  ])("take the neutral %j", async (extra) => {
    const response = await post(setUp().app, "/generate", { text: ["a", "b"], ...extra });
    expect(response.status).toBe(200);
  });

  test.each([
    ["return_hidden_states", true],
    ["lora_path", "adapter"],
    ["session_params", { id: "s" }],
    ["bootstrap_room", 1],
    ["video_data", "x.mp4"],
  ])("%s: %j is refused and named", async (name, value) => {
    const response = await post(setUp().app, "/generate", { text: "a", [name]: value });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(`Cannot use ${name}: it is not supported yet`);
  });

  test("an unknown field is refused and named", async () => {
    const response = await post(setUp().app, "/generate", { text: "a", max_tokens: 5 });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe("Cannot use max_tokens: it is not a known field");
  });
});

test("stream has to be a boolean", async () => {
  const response = await post(setUp().app, "/generate", { text: "a", stream: 1 });
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toBe("stream must be true or false, got 1");
});

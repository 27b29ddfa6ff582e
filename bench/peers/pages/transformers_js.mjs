// A page that generates a few tokens with transformers.js, from the model that lies beside it.

import { env, pipeline, TextStreamer } from "@huggingface/transformers";
import { reporting } from "../../../test/browser/pages/report.ts";

await reporting(async () => {
  const seconds = () => performance.now() / 1000;
  const program = seconds();
  const wanted = new URLSearchParams(location.search);
  // What would come from a hub and from a content network comes from here, and is kept all the same.
  env.remoteHost = new URL(".", location.href).href;
  env.remotePathTemplate = "{model}/";
  env.allowLocalModels = false;
  env.backends.onnx.wasm.wasmPaths = new URL("ort/", location.href).href;
  const generate = await pipeline("text-generation", "model", {
    dtype: "fp32",
    device: wanted.get("device"),
  });
  const loaded = seconds();
  const tokens = [];
  let firstToken = 0;
  const streamer = new TextStreamer(generate.tokenizer, {
    skip_prompt: true,
    callback_function: () => {},
    token_callback_function: (ids) => {
      if (tokens.length === 0) firstToken = seconds();
      tokens.push(...ids.map(Number));
    },
  });
  const count = 8;
  const options = { do_sample: false, max_new_tokens: count, min_new_tokens: count, streamer };
  await generate("What is the capital of Japan?", options);
  return { seconds: { program, loaded, firstToken }, tokens };
});

/**
 * `engine.chat`, without what it takes until something is asked.
 *
 * @module
 */
import type { GenerationEngine } from "../generation.ts";
import type { ChatCompletionBody, CreateOptions, OpenaiChat } from "../server/openai_chat.ts";

/** Chat completions of an engine, whose code is loaded with the first of them. */
export function lazyChat(engine: GenerationEngine): OpenaiChat {
  let loading: Promise<OpenaiChat> | undefined;
  const create = async (body: ChatCompletionBody, options?: CreateOptions) => {
    loading ??= load(engine);
    // A page that was offline may try again.
    const chat = await loading.catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return chat.completions.create(body, options);
  };
  return { completions: { create: create as OpenaiChat["completions"]["create"] } };
}

async function load(engine: GenerationEngine): Promise<OpenaiChat> {
  const { openaiChat } = await import("../server/openai_chat.ts");
  return openaiChat(engine);
}

/**
 * The interfaces that traffic can be sent to: what a request looks like, and what an event tells.
 *
 * @module
 */

export const TRAFFIC_BACKENDS = ["native", "openai", "openai-chat"] as const;
export type TrafficBackendName = (typeof TRAFFIC_BACKENDS)[number];

/** One prompt of the traffic. */
export interface TrafficPrompt {
  /** Token ids, or a text where the interface takes no ids. */
  readonly content: readonly number[] | string;
  /** Completion tokens at most. */
  readonly maxNewTokens: number;
}

export interface TrafficBodyOptions {
  /** As the server calls it. */
  readonly model: string;
  /** Whether the answer goes on to its last token, whatever the model wants. */
  readonly ignoreEos: boolean;
  /** Further fields, which win. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** What one event of a stream tells. */
export interface TrafficEvent {
  readonly text: string;
  readonly promptTokens?: number | undefined;
  /** So far, where it says. */
  readonly completionTokens?: number | undefined;
}

export interface TrafficBackend {
  readonly path: string;
  /** Whether prompts are token ids. Else they are texts, and their lengths in tokens are guesses. */
  readonly takesTokens: boolean;
  /** Whether each event has the whole text so far, and the number of its tokens. */
  readonly isCumulative: boolean;
  body(prompt: TrafficPrompt, options: TrafficBodyOptions): object;
  read(event: Readonly<Record<string, unknown>>): TrafficEvent;
}

interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
}

interface Choice {
  readonly text?: string | null;
  readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null };
}

const native: TrafficBackend = {
  path: "/generate",
  takesTokens: true,
  isCumulative: true,
  body: ({ content, maxNewTokens }, { ignoreEos, extra }) => ({
    ...(typeof content === "string" ? { text: content } : { input_ids: content }),
    stream: true,
    ...extra,
    sampling_params: {
      temperature: 0,
      max_new_tokens: maxNewTokens,
      ignore_eos: ignoreEos,
      ...(extra?.sampling_params as object | undefined),
    },
  }),
  read({ text, meta_info }) {
    const { prompt_tokens, completion_tokens } = (meta_info ?? {}) as Usage;
    return {
      text: typeof text === "string" ? text : "",
      promptTokens: prompt_tokens,
      completionTokens: completion_tokens,
    };
  },
};

/** What both of OpenAI's interfaces have. */
const openaiFields = (maxNewTokens: number, options: TrafficBodyOptions) => ({
  model: options.model,
  temperature: 0,
  max_tokens: maxNewTokens,
  // No field of OpenAI's own, so that servers without it are not asked.
  ...(options.ignoreEos && { ignore_eos: true }),
  stream: true,
  stream_options: { include_usage: true },
  ...options.extra,
});

function readChoices(event: Readonly<Record<string, unknown>>): TrafficEvent {
  const [choice] = (event.choices ?? []) as readonly Choice[];
  const { prompt_tokens, completion_tokens } = (event.usage ?? {}) as Usage;
  const { content, reasoning_content } = choice?.delta ?? {};
  const text = (reasoning_content ?? "") + (content ?? choice?.text ?? "");
  return { text, promptTokens: prompt_tokens, completionTokens: completion_tokens };
}

const openai: TrafficBackend = {
  path: "/v1/completions",
  takesTokens: true,
  isCumulative: false,
  body: ({ content, maxNewTokens }, options) => ({
    prompt: content,
    ...openaiFields(maxNewTokens, options),
  }),
  read: readChoices,
};

const openaiChat: TrafficBackend = {
  path: "/v1/chat/completions",
  takesTokens: false,
  isCumulative: false,
  body: ({ content, maxNewTokens }, options) => ({
    messages: [{ role: "user", content }],
    ...openaiFields(maxNewTokens, options),
  }),
  read: readChoices,
};

export function trafficBackend(name: TrafficBackendName): TrafficBackend {
  switch (name) {
    case "native":
      return native;
    case "openai":
      return openai;
    case "openai-chat":
      return openaiChat;
    default:
      return name satisfies never;
  }
}

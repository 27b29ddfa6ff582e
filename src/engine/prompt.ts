/**
 * From a request to its prompt.
 *
 * @module
 */
import type { ContentIds } from "../cache/content_id.ts";
import { detailsOf, textsOf } from "../chat_message.ts";
import { ContextLengthError, InvalidRequestError, UnsupportedError } from "../errors.ts";
import type { ChatMessage, GenerationRequest, TokenizeRequest } from "../generation.ts";
import type { ImageFeatures } from "./images/feature_cache.ts";
import type { ImageReader, PlacedImage } from "./images/image_reader.ts";
import { PromptEmbeddings } from "./prompt_embeddings.ts";
import { abortError } from "./schedule/chunk_stream.ts";
import { boundedText, tooLong } from "./text/text_jobs.ts";
import { finished, type TextService, type TextWork } from "./text/text_service.ts";
import type { PageRoutes } from "./transfer/page_routes.ts";

export interface PromptOptions {
  /** Tokenizes texts and conversations. */
  readonly texts: TextService;
  readonly vocabularySize: number;
  readonly hiddenSize: number;
  readonly contextLength: number;
  /** Bytes of the vocabulary's longest token. */
  readonly longestToken: number;
  readonly contentIds: ContentIds;
  /** Reads images; absent where the model does not. */
  readonly images?: ImageReader | undefined;
  /** Cuts what is too long, instead of refusing it. Default false. */
  readonly allowAutoTruncate?: boolean | undefined;
}

export interface Prompt {
  /** Ids, at least one and fewer than the context holds; those of embeddings are no token's. */
  readonly tokens: readonly number[];
  /** Absent when all of the prompt is tokens. */
  readonly embeddings?: PromptEmbeddings;
}

/** A prompt that is there, or is still being tokenized. */
export interface PendingPrompt {
  /** At once where it takes no other thread. */
  readonly prompt: Prompt | Promise<Prompt>;
  /** To be called once, when its request has ended. */
  readonly leave: () => void;
}

/** A text or embeddings that several requests have in common, or what is wrong with it. */
interface SharedPrompt {
  readonly pending: PendingPrompt;
  users: number;
}

/** Reads prompts, and one that requests share once for all of them. */
export class PromptReader {
  readonly #options: PromptOptions;
  /** By the key of their requests. */
  readonly #shared = new Map<string, SharedPrompt>();

  constructor(options: PromptOptions) {
    this.#options = options;
  }

  /** @throws {InvalidRequestError} naming the field; so does the prompt's promise reject. */
  read(request: GenerationRequest & PageRoutes): PendingPrompt {
    const { prompt, messages, tokens, inputEmbeds } = request;
    const given = [prompt, messages, tokens, inputEmbeds].filter((form) => form !== undefined);
    if (given.length !== 1) {
      throw new InvalidRequestError(
        `Cannot read the request: it needs exactly one of prompt, messages, tokens and inputEmbeds, got ${given.length}`,
      );
    }
    refuseWithoutMessages(request);
    this.#refuseImages(request);
    if (tokens !== undefined) return { prompt: this.#fitting(tokens), leave: () => {} };
    const { promptKey } = request;
    return promptKey === undefined ? this.#readOne(request) : this.#readShared(promptKey, request);
  }

  /** Ends where texts and images are read; what waits for one fails. */
  close(): void {
    this.#options.texts.close();
    this.#options.images?.close();
  }

  #readOne(request: GenerationRequest & PageRoutes): PendingPrompt {
    const { inputEmbeds, pageTaker, pageSource } = request;
    if (inputEmbeds === undefined) return this.#readText(request);
    const rows = inputEmbeds.slice(0, fittingLength(inputEmbeds, this.#options));
    const travels = (pageTaker ?? pageSource) !== undefined;
    const prompt = PromptEmbeddings.read(rows, { ...this.#options, travels }).then(
      (embeddings) => ({
        tokens: embeddings.ids,
        embeddings,
      }),
    );
    return { prompt, leave: () => {} };
  }

  #readShared(promptKey: string, request: GenerationRequest): PendingPrompt {
    const shared = this.#shared.get(promptKey) ?? { pending: this.#tryRead(request), users: 0 };
    this.#shared.set(promptKey, shared);
    shared.users += 1;
    return {
      prompt: withOwnRows(shared.pending.prompt),
      leave: () => {
        shared.users -= 1;
        if (shared.users > 0) return;
        this.#shared.delete(promptKey);
        shared.pending.leave();
      },
    };
  }

  /** What cannot be read fails for all that share it, and is tried once. */
  #tryRead(request: GenerationRequest): PendingPrompt {
    try {
      return this.#readOne(request);
    } catch (error) {
      return { prompt: Promise.reject(error), leave: () => {} };
    }
  }

  /** @throws {UnsupportedError | InvalidRequestError} where there are images that cannot be read. */
  #refuseImages({ images = [], tokens, inputEmbeds }: GenerationRequest): void {
    if (images.length === 0) return;
    requireImageModel({ images }, this.#options);
    if (tokens === undefined && inputEmbeds === undefined) return;
    throw new InvalidRequestError(
      "Cannot use images: they need a prompt or messages that have places for them",
      "images",
    );
  }

  #readText(request: GenerationRequest): PendingPrompt {
    const { images: reader } = this.#options;
    if (reader !== undefined && (request.images ?? []).length > 0) {
      return this.#readSeen(request, reader);
    }
    const { result, leave } = this.#tokenize(request, []);
    const prompt =
      result instanceof Promise ? result.then((ids) => this.#fitting(ids)) : this.#fitting(result);
    return { prompt, leave };
  }

  #readSeen(request: GenerationRequest, reader: ImageReader): PendingPrompt {
    let isWanted = true;
    let leaveText: (() => void) | undefined;
    let release: (() => void) | undefined;
    const read = async () => {
      const placed = await placeImages(request, this.#options);
      if (!isWanted) throw abortError();
      const { result, leave } = this.#tokenize(request, placed);
      leaveText = leave;
      const { tokens } = this.#fitting(await result);
      const features = await reader.rows(placed, { ...request, isWanted: () => isWanted });
      if (!isWanted) throw abortError();
      release = reader.held.hold(features);
      return this.#withRows(tokens, features, placed);
    };
    const leave = () => {
      isWanted = false;
      leaveText?.();
      release?.();
      release = undefined;
    };
    return { prompt: read(), leave };
  }

  async #withRows(
    tokens: readonly number[],
    images: readonly ImageFeatures[],
    placed: readonly PlacedImage[],
  ): Promise<Prompt> {
    const { contentIds, images: reader } = this.#options;
    const { placeholder } = reader!.processor;
    const grids = placed.map(({ prepared }) => prepared.grid);
    const given = { images, grids, placeholder, contentIds };
    const embeddings = await PromptEmbeddings.place(tokens, given);
    return { tokens: embeddings.ids, embeddings };
  }

  #fitting(ids: readonly number[]): Prompt {
    const length = fittingLength(ids, this.#options);
    requireTokens(ids, this.#options);
    return { tokens: ids.slice(0, length) };
  }

  #tokenize(
    request: GenerationRequest,
    placed: readonly PlacedImage[],
  ): TextWork<readonly number[]> {
    const { texts, contextLength, longestToken, images: reader } = this.#options;
    // A cut could leave out the place of an image.
    const allowAutoTruncate = this.#options.allowAutoTruncate && placed.length === 0;
    const fit = { contextLength, allowAutoTruncate };
    const { prompt, messages = [] } = request;
    if (prompt === undefined && !allowAutoTruncate) {
      requireBounded(messages, contextLength, longestToken);
    }
    const text =
      prompt === undefined
        ? conversation(request)
        : { prompt: boundedText(prompt, fit, longestToken) };
    return texts.run({ type: "prompt", request: text, fit, ...placesOf(reader, placed) }, request);
  }
}

/** The same for one of several requests: each forgets its rows when it needs them no more. */
function withOwnRows(prompt: PendingPrompt["prompt"]): PendingPrompt["prompt"] {
  if (!(prompt instanceof Promise)) return prompt;
  return prompt.then((read) => {
    const { embeddings } = read;
    return embeddings === undefined ? read : { ...read, embeddings: embeddings.share() };
  });
}

/**
 * Refuses a conversation that is many times what the context holds before it is copied to where it is
 * rendered: a message is a token at least, and the longest tokens spell many times what most do.
 */
function requireBounded(
  messages: readonly ChatMessage[],
  contextLength: number,
  longestToken: number,
): void {
  if (messages.length >= contextLength) throw tooLong(`at least ${messages.length}`, contextLength);
  let characters = 0;
  for (const { content } of messages) {
    for (const text of textsOf(content)) characters += text.length;
  }
  const atLeast = Math.ceil(characters / longestToken);
  if (atLeast >= contextLength) throw tooLong(`at least ${atLeast}`, contextLength);
}

function withPrompt(prompt: string, addSpecialTokens: boolean | undefined): TokenizeRequest {
  return { prompt, ...(addSpecialTokens !== undefined && { addSpecialTokens }) };
}

/** The fields of a conversation alone: they are copied to where it is rendered. */
function conversation(request: TokenizeRequest): TokenizeRequest {
  const { messages = [], tools, templateVariables, continueFinalMessage } = request;
  return {
    messages,
    ...(tools !== undefined && { tools }),
    ...(templateVariables !== undefined && { templateVariables }),
    ...(continueFinalMessage !== undefined && { continueFinalMessage }),
  };
}

/** Tokens at its beginning that a prompt may keep; one of the context is left for the completion. */
function fittingLength(
  { length }: ArrayLike<unknown>,
  { contextLength, allowAutoTruncate }: PromptOptions,
): number {
  if (length === 0) throw new InvalidRequestError("Cannot use the prompt: it is empty", "prompt");
  if (length < contextLength) return length;
  if (allowAutoTruncate) return contextLength - 1;
  throw tooLong(length, contextLength);
}

/** @throws {UnsupportedError} when there are images and the model reads none. */
function requireImageModel(
  { images = [] }: Pick<TokenizeRequest, "images">,
  { images: reader }: Pick<PromptOptions, "images">,
): void {
  if (images.length === 0 || reader !== undefined) return;
  throw new UnsupportedError("images", "the model reads text only", { field: "images" });
}

/** @throws {ContextLengthError} when images fill the context however small they are. */
function requireFewImages(
  count: number,
  { images: reader, contextLength }: Pick<PromptOptions, "images" | "contextLength">,
): void {
  const tokens = count * (reader?.processor.fewestTokens ?? 0);
  if (tokens >= contextLength) throw tooLong(`at least ${tokens}`, contextLength);
}

/**
 * The images of a request, whose places are known: their pixels are not decoded.
 *
 * @throws {InvalidRequestError} as a rejection, naming the image that cannot be read.
 * @throws {ContextLengthError} as a rejection, when they alone fill the context.
 */
async function placeImages(
  { images = [], messages = [] }: TokenizeRequest,
  options: Pick<PromptOptions, "images" | "contextLength">,
): Promise<readonly PlacedImage[]> {
  const { images: reader } = options;
  if (reader === undefined || images.length === 0) return [];
  requireFewImages(images.length, options);
  const placed = reader.place(await reader.look(images), detailsOf(messages));
  const tokens = placed.reduce((sum, { prepared }) => sum + prepared.tokens, 0);
  if (tokens >= options.contextLength) throw tooLong(`at least ${tokens}`, options.contextLength);
  return placed;
}

/** What a text job is told of images, and of a model that reads them. */
function placesOf(reader: ImageReader | undefined, placed: readonly PlacedImage[]) {
  const images = reader && {
    placeholder: reader.processor.placeholderText,
    texts: placed.map(({ prepared }) => prepared.text),
  };
  return { images, beginsChats: reader?.processor.beginsChats };
}

/** @throws {InvalidRequestError} when an id is not in the vocabulary. */
export function requireTokens(
  ids: readonly number[],
  { vocabularySize }: Pick<PromptOptions, "vocabularySize">,
): void {
  const wrong = ids.find((id) => !(Number.isSafeInteger(id) && id >= 0 && id < vocabularySize));
  if (wrong !== undefined) {
    throw new InvalidRequestError(
      `Cannot use token id ${wrong}: it is not in the vocabulary of ${vocabularySize}`,
      "tokens",
    );
  }
}

function refuseWithoutMessages(request: TokenizeRequest): void {
  if (request.messages !== undefined) return;
  for (const field of ["tools", "templateVariables", "continueFinalMessage"] as const) {
    if (request[field] === undefined) continue;
    throw new InvalidRequestError(`Cannot use ${field}: the request has no messages`, field);
  }
}

/**
 * The tokens of a text or a conversation, however many, those of its images among them.
 *
 * @throws {InvalidRequestError} when there is not exactly one of the two, or an image cannot be read.
 * @throws {UnsupportedError} when there are images and the model reads none.
 */
export async function tokenize(
  request: TokenizeRequest,
  options: Pick<PromptOptions, "texts" | "images" | "contextLength">,
  signal?: AbortSignal,
): Promise<readonly number[]> {
  const { prompt, messages, addSpecialTokens } = request;
  const { texts, images: reader } = options;
  if ((prompt === undefined) === (messages === undefined)) {
    throw new InvalidRequestError(
      "Cannot tokenize: the request needs exactly one of prompt and messages",
    );
  }
  refuseWithoutMessages(request);
  const text = prompt === undefined ? conversation(request) : withPrompt(prompt, addSpecialTokens);
  requireImageModel(request, options);
  const placed = await placeImages(request, options);
  // A request without images may have the text of a placeholder in its prompt: it is tokenized as text.
  const places = placed.length > 0 ? placesOf(reader, placed) : placesOf(undefined, []);
  const beginsChats = reader?.processor.beginsChats;
  const job = { type: "prompt", request: text, ...places, beginsChats } as const;
  return finished(texts.run(job, request), signal);
}

/**
 * Completion tokens a request gets.
 *
 * @param wanted `undefined` is the default, cut to what fits; `null` is all that fits.
 * @throws {InvalidRequestError} when the request asks for more than the context holds.
 */
export function completionLimit(
  promptLength: number,
  wanted: number | null | undefined,
  {
    contextLength,
    fallback,
    allowAutoTruncate = false,
  }: Pick<PromptOptions, "contextLength" | "allowAutoTruncate"> & { readonly fallback: number },
): number {
  const room = contextLength - promptLength;
  if (wanted === null) return room;
  if (wanted === undefined) return Math.min(fallback, room);
  if (wanted > room && allowAutoTruncate) return room;
  if (wanted > room) {
    throw new ContextLengthError(
      `Requested token count exceeds the model's maximum context length of ${contextLength} tokens. ` +
        `You requested a total of ${promptLength + wanted} tokens: ${promptLength} tokens from the ` +
        `input and ${wanted} tokens for the completion. This model's maximum context length is ` +
        `${contextLength} tokens. Please reduce the length of the messages or completion`,
      "maxNewTokens",
    );
  }
  return wanted;
}

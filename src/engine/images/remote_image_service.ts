/**
 * Images decoded, resampled and hashed in another thread, so that no picture delays other requests.
 *
 * What was asked of a thread that has ended fails; the next image has another.
 *
 * @module
 */
import { InvalidRequestError, WorkerError } from "../../errors.ts";
import type { ImageAlpha } from "../../images/alpha.ts";
import type { TowerPicture } from "../../images/patches.ts";
import type { PictureRecipe } from "../../images/picture_recipe.ts";
import { turns } from "../../turns.ts";
import { errorOf } from "../remote/error_data.ts";
import type { ImageAnswer, ImageCall, ImageQuestion } from "./image_messages.ts";
import type { ImageReading, ImageService, SeenImage } from "./image_service.ts";

/** A thread in which `serveImages` runs. */
export interface ImageThread {
  /** Sends what `serveImages` takes. */
  send(call: ImageCall, transfer: readonly ArrayBuffer[]): void;
  /** Says whether an answer is awaited, which a process then has to stay for. */
  setAwaited?(isAwaited: boolean): void;
  terminate(): void;
}

export interface ImageThreadEvents {
  readonly onAnswer: (answer: ImageAnswer) => void;
  /**
   * The thread has ended, or cannot be started.
   *
   * @param isFull Whether it needed more memory than it may have.
   */
  readonly onEnd: (problem: string, isFull: boolean) => void;
}

export type StartImageThread = (events: ImageThreadEvents) => ImageThread;

export interface RemoteImageOptions {
  readonly start: StartImageThread;
  readonly alpha: ImageAlpha;
  readonly readsDrawings: boolean;
  /** Default `MAX_IMAGE_SECONDS`. */
  readonly seconds?: number;
}

/** Of one step with an image: to be hashed, to be decoded and resampled, to become patches. */
export const MAX_IMAGE_SECONDS = 60;
/** Bytes that are copied between two looks at the clock. */
const PIECE_BYTES = 2 ** 20;
/**
 * Milliseconds in which an answer may still come when the time is over: where this thread was held up,
 * it is here already and was not looked at yet.
 */
const GRACE_MS = 100;

export class RemoteImageService implements ImageService {
  readonly readsAll = true;
  readonly readsDrawings: boolean;
  readonly #options: RemoteImageOptions;
  /** The thread of the next image; another is started where it has ended. */
  #link: ImageLink | undefined;
  #isClosed = false;

  constructor(options: RemoteImageOptions) {
    this.#options = options;
    this.readsDrawings = options.readsDrawings;
  }

  async open(given: SeenImage): Promise<ImageReading> {
    const { image, memory } = await copied(given);
    const link = this.#currentLink();
    const { alpha } = this.#options;
    const { hash } = await link.ask({ type: "open", image, alpha }, memory);
    return {
      hash,
      pictures: (recipe) => picturesOf(link, recipe),
      close: () => link.tell({ type: "close" }),
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#link?.end(lost("the image service is closed"));
  }

  #currentLink(): ImageLink {
    if (this.#isClosed) throw lost("the image service is closed");
    if (this.#link === undefined || this.#link.hasEnded) this.#link = new ImageLink(this.#options);
    return this.#link;
  }
}

/** The next picture is made while the tower sees the last one. */
async function* picturesOf(
  link: ImageLink,
  recipe: PictureRecipe,
): AsyncGenerator<TowerPicture, void> {
  const { pictures } = await link.ask({ type: "decode", recipe });
  const ask = (index: number) => {
    const answer = index < pictures ? link.ask({ type: "picture", index }) : undefined;
    // What fails is told below, unless the caller has left.
    answer?.catch(() => {});
    return answer;
  };
  let next = ask(0);
  try {
    for (let i = 1; next !== undefined; i++) {
      const { picture } = await next;
      next = ask(i);
      yield picture;
    }
  } finally {
    // The thread is asked one question at a time, by the next image too.
    await next?.catch(() => {});
  }
}

type AnswerTo<Question extends ImageQuestion> = Extract<
  ImageAnswer,
  { type: { open: "opened"; decode: "decoded"; picture: "picture" }[Question["type"]] }
>;

interface Waiting {
  readonly resolve: (answer: ImageAnswer) => void;
  readonly reject: (error: Error) => void;
  readonly timer: { id: ReturnType<typeof setTimeout> };
}

/** One thread, from its start to its end. */
class ImageLink {
  readonly #seconds: number;
  #thread: ImageThread | undefined;
  /** Why nothing can be asked any more. */
  #failure: Error | undefined;
  #waiting: Waiting | undefined;

  constructor({ start, seconds = MAX_IMAGE_SECONDS }: RemoteImageOptions) {
    this.#seconds = seconds;
    try {
      this.#thread = start({
        onAnswer: (answer) => this.#take(answer),
        onEnd: (problem, isFull) =>
          this.end(isFull ? beyond("more memory than it may have") : lost(problem)),
      });
    } catch (cause) {
      this.end(lost((cause as Error).message, cause));
    }
  }

  get hasEnded(): boolean {
    return this.#failure !== undefined;
  }

  ask<Question extends ImageQuestion>(
    question: Question,
    transfer: readonly ArrayBuffer[] = [],
  ): Promise<AnswerTo<Question>> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) throw this.#failure;
      try {
        this.#thread!.send(question, transfer);
      } catch (cause) {
        // As of an `ImageBitmap` that its page has closed.
        const problem = (cause as Error).message;
        const message = `Cannot read the image: it cannot be sent to the thread of images (${problem})`;
        throw new InvalidRequestError(message, undefined, { cause });
      }
      const check = () => {
        const problem = `longer than ${this.#seconds} s`;
        timer.id = setTimeout(() => this.end(beyond(problem)), GRACE_MS);
      };
      const timer = { id: setTimeout(check, 1000 * this.#seconds) };
      this.#waiting = { resolve: resolve as Waiting["resolve"], reject, timer };
      this.#thread!.setAwaited?.(true);
    });
  }

  tell(call: ImageCall): void {
    this.#thread?.send(call, []);
  }

  end(failure: Error): void {
    if (this.#failure !== undefined) return;
    this.#failure = failure;
    this.#settle()?.reject(failure);
    this.#thread?.terminate();
    this.#thread = undefined;
  }

  #take(answer: ImageAnswer): void {
    const waiting = this.#settle();
    if (answer.type === "failed") waiting?.reject(errorOf(answer.error));
    else waiting?.resolve(answer);
  }

  #settle(): Waiting | undefined {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) return undefined;
    clearTimeout(waiting.timer.id);
    this.#thread?.setAwaited?.(false);
    return waiting;
  }
}

/** A copy that may leave this thread, made in slices: the caller's stays its own. */
async function copied(given: SeenImage) {
  const values = given instanceof Uint8Array ? given : "rgba" in given ? given.rgba : undefined;
  // A platform's own picture is copied as it is sent.
  if (values === undefined) return { image: given, memory: [] };
  const copy = new Uint8Array(values.length);
  for (let at = 0; at < values.length; at += PIECE_BYTES) {
    copy.set(values.subarray(at, at + PIECE_BYTES), at);
    if (turns.isDue) await turns.take();
  }
  const { width, height } = given as Exclude<SeenImage, Uint8Array>;
  const image = given instanceof Uint8Array ? copy : { width, height, rgba: copy };
  return { image, memory: [copy.buffer] };
}

const beyond = (what: string): Error =>
  new InvalidRequestError(`Cannot read the image: it took ${what}`);

const lost = (problem: string, cause?: unknown): Error =>
  new WorkerError(`Cannot read the image: ${problem}`, { cause });

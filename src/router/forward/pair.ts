/**
 * One request at two servers at once: the prefill server computes its prompt, the decode server answers.
 *
 * Where one of them fails, the other is left at once, and the attempt says which of the two it was.
 *
 * @module
 */
import type { DisaggregatedSide } from "../../errors.ts";
import { FAILED_SIDE_HEADER, HttpError } from "../../http/error_response.ts";
import { sleep } from "../../http/retries.ts";
import { Follower } from "../worker/follower.ts";
import type { Upstream, UpstreamAnswer, UpstreamRequest } from "../worker/upstream.ts";

/** Bytes of a prefill server's answer that are kept: more are never those of an error. */
const KEPT_BYTES = 2 ** 16;
/** Milliseconds in which the side that is blamed may still say why itself. */
const OWN_WORDS = 250;

export interface PairRequest {
  readonly upstream: Upstream;
  /** How the decode side is asked. */
  readonly decodeUpstream: Upstream;
  readonly prefill: Omit<UpstreamRequest, "signal">;
  readonly decode: Omit<UpstreamRequest, "signal">;
  readonly signal: AbortSignal;
  /** Called once, when the prefill server's part is over, which may be after the answer has begun. */
  readonly prefilled: (answer: UpstreamAnswer | undefined) => void;
}

export type PairAttempt =
  | { readonly error: HttpError; readonly blamed: DisaggregatedSide }
  | {
      readonly answer: UpstreamAnswer;
      readonly first: Uint8Array | undefined;
      /** Whose answer it is. */
      readonly of: DisaggregatedSide;
      /** Which side has failed, where one has. */
      readonly blamed: DisaggregatedSide | undefined;
    };

type Settled =
  | { readonly answer: UpstreamAnswer; readonly first: Uint8Array | undefined }
  | { readonly error: unknown };

/** @throws the signal's reason, and what is no worker's fault. */
export async function askPair(request: PairRequest): Promise<PairAttempt> {
  const { upstream, decodeUpstream, signal } = request;
  const [prefill, decode] = [new Follower(signal), new Follower(signal)];
  const prefilling = settled(upstream({ ...request.prefill, signal: prefill.signal }).then(kept));
  const decoding = settled(
    decodeUpstream({ ...request.decode, signal: decode.signal }).then(async (answer) => ({
      answer,
      first: await answer.body.read(),
    })),
  );
  void prefilling.then((one) => {
    prefill.release();
    request.prefilled("answer" in one ? one.answer : undefined);
  });
  const failing = prefilling.then((one) => (isFine(one) ? decoding.then(() => undefined) : one));
  const failed = await Promise.race([failing, decoding.then(() => undefined)]);
  const attempt =
    failed === undefined
      ? await ofDecode(await decoding, prefilling, signal)
      : await ofPrefill(failed, decoding, signal);
  const isAnswered = "answer" in attempt && attempt.of === "decode" && attempt.answer.status < 400;
  if (!isAnswered) {
    const reason = new DOMException("The other server has failed", "AbortError");
    prefill.abort(reason);
    if (!("answer" in attempt && attempt.of === "decode")) decode.abort(reason);
  }
  return attempt;
}

/** The decode server has answered, or cannot be reached. */
async function ofDecode(
  decoded: Settled,
  prefilling: Promise<Settled>,
  signal: AbortSignal,
): Promise<PairAttempt> {
  if ("error" in decoded) return { error: workerError(decoded.error), blamed: "decode" };
  const { answer } = decoded;
  if (answer.status < 400) return { ...decoded, of: "decode", blamed: undefined };
  if (failedSide(answer) !== "prefill") return { ...decoded, of: "decode", blamed: "decode" };
  const prefilled = await Promise.race([
    prefilling,
    sleep(OWN_WORDS, signal).then(() => undefined),
  ]);
  const isClients =
    prefilled !== undefined && "answer" in prefilled && isClientError(prefilled.answer);
  if (isClients) return { ...prefilled, of: "prefill", blamed: undefined };
  return { ...decoded, of: "decode", blamed: "prefill" };
}

/** The prefill server has refused the request, or cannot be reached. */
async function ofPrefill(
  failed: Settled,
  decoding: Promise<Settled>,
  signal: AbortSignal,
): Promise<PairAttempt> {
  if ("error" in failed) return { error: workerError(failed.error), blamed: "prefill" };
  const { answer } = failed;
  if (failedSide(answer) !== "decode") {
    // A client that did something wrong, or a server that is busy, is no failure.
    const isFailure = answer.status >= 500 && answer.status !== 503;
    return { ...failed, of: "prefill", blamed: isFailure ? "prefill" : undefined };
  }
  const decoded = await Promise.race([decoding, sleep(OWN_WORDS, signal).then(() => undefined)]);
  if (decoded === undefined) return { ...failed, of: "prefill", blamed: "decode" };
  if ("error" in decoded) return { error: workerError(decoded.error), blamed: "decode" };
  return { ...decoded, of: "decode", blamed: decoded.answer.status < 400 ? undefined : "decode" };
}

/** @throws what is no worker's fault. */
function workerError(error: unknown): HttpError {
  if (error instanceof HttpError && error.code === "worker_failed") return error;
  throw error;
}

function isFine(one: Settled): boolean {
  return "answer" in one && one.answer.status < 400;
}

/** What a client did wrong, both servers refuse. */
function isClientError({ status }: UpstreamAnswer): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

function failedSide({ headers }: UpstreamAnswer): string | undefined {
  return headers.find(([name]) => name === FAILED_SIDE_HEADER)?.[1];
}

/** Never rejects. */
function settled(work: Promise<Exclude<Settled, { error: unknown }>>): Promise<Settled> {
  return work.catch((error: unknown) => ({ error }));
}

/** Reads all of an answer of which no more than its beginning counts. */
async function kept(answer: UpstreamAnswer): Promise<Exclude<Settled, { error: unknown }>> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (let piece = await answer.body.read(); piece; piece = await answer.body.read()) {
    if (answer.status < 400 || length > KEPT_BYTES) continue;
    pieces.push(piece);
    length += piece.length;
  }
  const first = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    first.set(piece, at);
    at += piece.length;
  }
  const body = { read: async () => undefined, cancel: () => {} };
  return { answer: { ...answer, body }, first };
}

/**
 * The errors this library throws on purpose: few kinds, one for each thing a caller can do about it.
 *
 * @module
 */

/** UTF-16 units of a message that are shown from each end: what it quotes may be of any length. */
const SHOWN_AT_BEGIN = 3072;
const SHOWN_AT_END = 1024;

/** Base of every error this library throws on purpose. */
export abstract class EngineError extends Error {
  /** Stable machine-readable code; the HTTP server maps it to a status. */
  abstract readonly code: string;

  /** @param message Cut in the middle where it has more than 4,096 UTF-16 units. */
  constructor(message: string, options?: ErrorOptions) {
    super(shorten(message), options);
    this.name = new.target.name;
  }
}

function shorten(message: string): string {
  const left = message.length - SHOWN_AT_BEGIN - SHOWN_AT_END;
  if (left <= 0) return message;
  const begin = message.slice(0, SHOWN_AT_BEGIN);
  return `${begin}... (${left} characters) ...${message.slice(-SHOWN_AT_END)}`;
}

/** A request that can never be served as it is written. The client must change it. */
export class InvalidRequestError extends EngineError {
  readonly code: "invalid_request" | "context_length_exceeded" = "invalid_request";
  /** Name of the offending field as the client wrote it, when one is to blame. */
  readonly field: string | undefined;

  constructor(message: string, field?: string, options?: ErrorOptions) {
    super(message, options);
    this.field = field;
  }
}

/** A prompt, or a prompt and the completion that is asked for, beyond what the model's context holds. */
export class ContextLengthError extends InvalidRequestError {
  override readonly code = "context_length_exceeded";
}

/** What has a fixed size and can be full. */
export type LimitedResource =
  | "pages of the KV cache"
  | "places in the request queue"
  | "memory for requests"
  | "memory for grammars"
  | "memory for rows of images"
  | "memory for log-probabilities"
  | "places to wait for a flush";

/** A fixed-size resource is full. The same request may succeed later. */
export class CapacityError extends EngineError {
  readonly code = "capacity_exceeded";
  readonly resource: LimitedResource;
  readonly limit: number;

  /** @param state How full it is, and what frees some of it. */
  constructor(resource: LimitedResource, limit: number, state: string, options?: ErrorOptions) {
    super(`Cannot reserve ${resource}: ${state}`, options);
    this.resource = resource;
    this.limit = limit;
  }
}

/** A checkpoint's files are damaged, incomplete or contradict each other. */
export class CheckpointError extends EngineError {
  readonly code = "invalid_checkpoint";
  /** File inside the checkpoint folder. */
  readonly file: string;
  /** Tensor or config field to blame, when there is one. */
  readonly tensor: string | undefined;

  /** @param problem Names of a file may hold anything: its control characters become spaces. */
  constructor(file: string, problem: string, tensor?: string, options?: ErrorOptions) {
    const place = `${file}${tensor === undefined ? "" : ` (${tensor})`}`;
    super(`Cannot load ${place}: ${problem}`.replace(/\p{Cc}+/gu, " "), options);
    this.file = file;
    this.tensor = tensor;
  }
}

export interface FieldErrorOptions extends ErrorOptions {
  /** Name of the offending field as the client wrote it, when one is to blame. */
  readonly field?: string | undefined;
}

/** Something well-formed that this engine does not do. */
export class UnsupportedError extends EngineError {
  readonly code = "unsupported";
  readonly feature: string;
  /** Name of the offending field as the client wrote it, when one is to blame. */
  readonly field: string | undefined;

  constructor(
    feature: string,
    reason = "it is not supported",
    { field, ...options }: FieldErrorOptions = {},
  ) {
    super(`Cannot use ${feature}: ${reason}`, options);
    this.feature = feature;
    this.field = field;
  }
}

/** The GPU is missing, lost, out of memory or failed its self-test. */
export class DeviceError extends EngineError {
  readonly code: "device_error" | "request_loses_device" = "device_error";
}

/**
 * Computing this request loses the device, again and again. The engine has ended it and serves all
 * others; the same request would lose the device again.
 */
export class RequestLosesDeviceError extends DeviceError {
  override readonly code = "request_loses_device";
  readonly requestId: string;
  /** Devices lost with rows of the request in flight, at last with no other request's. */
  readonly losses: number;

  constructor(requestId: string, losses: number, options?: ErrorOptions) {
    const state = `the device was lost ${losses} times while its rows were computed, at last while only its rows were`;
    super(`Cannot go on with request ${requestId}: ${state}`, options);
    this.requestId = requestId;
    this.losses = losses;
  }
}

/** A kernel was defined or launched against its own declaration. A bug in this library. */
export class KernelError extends EngineError {
  readonly code = "kernel_error";
  readonly kernel: string;

  constructor(kernel: string, problem: string, options?: ErrorOptions) {
    super(`Cannot use kernel "${kernel}": ${problem}`, options);
    this.kernel = kernel;
  }
}

/** Bytes that came from elsewhere are damaged, or were made for something else. */
export class TransferError extends EngineError {
  readonly code = "transfer_error";
  /** What about them is wrong. */
  readonly field: string;

  constructor(what: string, field: string, problem: string, options?: ErrorOptions) {
    super(`Cannot take ${what} (${field}): ${problem}`, options);
    this.field = field;
  }
}

/** A thread that part of the work is done in has ended. What needs none of it goes on. */
export class WorkerError extends EngineError {
  readonly code = "worker_error";
}

/** Ranks of one group cannot go on together: one has left, or they disagree about what comes next. */
export class GroupError extends EngineError {
  readonly code = "group_error";
}

/** Of two servers that share a request, the one that cannot go on with it. */
export type DisaggregatedSide = "prefill" | "decode";

/**
 * A request that a prefill and a decode server share cannot go on: one of them is lost, late, refuses
 * it or has ended it. Sent again, it may find a pair that can.
 */
export class DisaggregationError extends EngineError {
  readonly code = "disaggregation_failed";
  readonly side: DisaggregatedSide;
  readonly room: string;

  constructor(room: string, side: DisaggregatedSide, state: string, options?: ErrorOptions) {
    super(`Cannot go on with room ${room}: ${state}`, options);
    this.side = side;
    this.room = room;
  }
}
/** A rank came to an exchange without its part: none of them got anything, and their group goes on. */
export class SpoiledError extends GroupError {}

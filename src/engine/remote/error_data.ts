/**
 * Errors as plain data: messages between threads carry an error's text and lose its class.
 *
 * @module
 */
import {
  CapacityError,
  CheckpointError,
  ContextLengthError,
  DeviceError,
  DisaggregationError,
  EngineError,
  GroupError,
  InvalidRequestError,
  KernelError,
  RequestLosesDeviceError,
  TransferError,
  UnsupportedError,
  WorkerError,
} from "../../errors.ts";
import { GrammarError } from "../../grammar/grammar_error.ts";

export interface ErrorData {
  /** Name of the class, or of the nearest above it that both sides know. */
  readonly type: string;
  /** A DOMException's is "AbortError" and the like. */
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  /** What the class has beside these: `field`, `limit`, `position`. */
  readonly fields: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly cause: ErrorData | undefined;
}

/** By names that are written here, as bundled classes may have different ones on the other side. */
const CLASSES: Readonly<Record<string, { readonly prototype: Error }>> = {
  Error,
  TypeError,
  RangeError,
  SyntaxError,
  ReferenceError,
  EngineError,
  InvalidRequestError,
  GrammarError,
  CapacityError,
  CheckpointError,
  ContextLengthError,
  UnsupportedError,
  DeviceError,
  DisaggregationError,
  KernelError,
  RequestLosesDeviceError,
  TransferError,
  WorkerError,
  GroupError,
};

const DOM_EXCEPTION = "DOMException";
const PLAIN_TYPES: readonly string[] = ["string", "number", "boolean", "undefined"];
/** Causes of causes that are kept. */
const MAX_CAUSES = 4;

export function errorData(thrown: unknown, causes = MAX_CAUSES): ErrorData {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const { message, stack, cause } = error;
  const keepsCause = cause !== undefined && causes > 0;
  return {
    ...classOf(error),
    message,
    stack,
    fields: fieldsOf(error),
    cause: keepsCause ? errorData(cause, causes - 1) : undefined,
  };
}

/** The error again: its class, fields and causes, and the stack of where it was thrown. */
export function errorOf({ type, name, message, stack, fields, cause }: ErrorData): Error {
  if (type === DOM_EXCEPTION) return new DOMException(message, name);
  const error = new Error(message, cause && { cause: errorOf(cause) });
  if (stack !== undefined) error.stack = stack;
  const { prototype } = CLASSES[type] ?? Error;
  Object.setPrototypeOf(error, prototype);
  // The library's errors have names of their own, the language's that of their class.
  return Object.assign(error, fields, name !== prototype.name && { name });
}

/** The nearest class that is known on both sides. */
function classOf(error: Error): Pick<ErrorData, "type" | "name"> {
  if (error instanceof DOMException) return { type: DOM_EXCEPTION, name: error.name };
  const own = Object.getPrototypeOf(error);
  for (let prototype = own; prototype !== null; prototype = Object.getPrototypeOf(prototype)) {
    const type = Object.keys(CLASSES).find((name) => CLASSES[name]!.prototype === prototype);
    if (type === undefined) continue;
    const isNamedByClass = prototype === own && error instanceof EngineError;
    return { type, name: isNamedByClass ? type : error.name };
  }
  return { type: "Error", name: error.name };
}

function fieldsOf(error: Error): ErrorData["fields"] {
  const { name: _, ...own } = { ...error };
  const plain = Object.entries(own).filter(([, value]) => PLAIN_TYPES.includes(typeof value));
  return Object.fromEntries(plain) as ErrorData["fields"];
}

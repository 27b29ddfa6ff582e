/**
 * `bootstrap_host`, `bootstrap_port` and `bootstrap_room`, with which a router tells a prefill and a
 * decode server where they meet: in bodies of all endpoints that generate, beside their own fields.
 *
 * Each is one value for all of a request's answers or a list: of one for each prompt, or for each
 * answer. Answers that share a room's number have rooms of their own all the same, by their place.
 * `bootstrap_ticket` and `bootstrap_begun` come with requests of decode nodes, which may leave.
 *
 * @module
 */

import type { BegunAnswer, Bootstrap, PageTicket } from "../../bootstrap.ts";
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import { Fields, isObject, wrongType } from "../../http/fields.ts";

const NAMES = [
  ...["bootstrap_host", "bootstrap_port", "bootstrap_room"],
  ...["bootstrap_ticket", "bootstrap_begun"],
] as const;

/** UTF-16 units of a host's name. */
const HOST_UNITS = 255;
const LAST_PORT = 65_535;
/** Rooms are numbers of 63 bits. */
const ROOM_END = 2 ** 63;
/** UTF-16 units of what a ticket has. */
const TICKET_UNITS = 256;
/** Takes the seed of an answer to that of the next one, as seeds of samples do. */
const SEED_STEP = 0x9e3779b9;
/** What others call a meeting that never takes place, which made answers of nothing. */
const FAKE_HOST = "2.2.2.2";

/** The room of each of so many answers; undefined where the request names none. */
export type BootstrapOf = (index: number, count: number) => Bootstrap | undefined;

/**
 * Takes the fields out of a body.
 *
 * @throws {HttpError} when one has the wrong type.
 * @throws {InvalidRequestError | UnsupportedError} when one is out of range.
 */
export function takeBootstrap(body: unknown): {
  readonly body: unknown;
  readonly bootstrapOf: BootstrapOf;
} {
  if (!isObject(body) || !NAMES.some((name) => Object.hasOwn(body, name))) {
    return { body, bootstrapOf: () => undefined };
  }
  const others = Object.fromEntries(
    Object.entries(body).filter(([name]) => !(NAMES as readonly string[]).includes(name)),
  );
  const fields = new Fields(body);
  const hosts = listOf(fields, "bootstrap_host", requireHost);
  const ports = listOf(fields, "bootstrap_port", requirePort);
  const rooms = listOf(fields, "bootstrap_room", requireRoom);
  const ticket = readTicket(fields);
  const begun = readBegun(fields);
  const bootstrapOf: BootstrapOf = (index, count) => {
    const at = <T>(name: string, given: Given<T>) => placeOf(name, given, { index, count });
    const [room, within] = at("bootstrap_room", rooms);
    if (room === undefined) return undefined;
    const [host] = at("bootstrap_host", hosts);
    const [port] = at("bootstrap_port", ports);
    const name = within === 0 ? room : `${room}+${within}`;
    return { host, port, room: name, ticket, begun: begun?.(index) };
  };
  return { body: others, bootstrapOf };
}

/** `bootstrap_ticket`: whose room it is on a prefill server, with what to open it on a decode node. */
function readTicket(fields: Fields): PageTicket | string | undefined {
  const name = "bootstrap_ticket";
  const value = fields.value(name);
  const text = (one: unknown, path: string): string => {
    if (typeof one === "string" && one.length <= TICKET_UNITS) return one;
    throw wrongType(path, `a string of at most ${TICKET_UNITS} characters`, one);
  };
  if (value === undefined) return undefined;
  if (!isObject(value)) return text(value, name);
  return { id: text(value.id, `${name}.id`), secret: text(value.secret, `${name}.secret`) };
}

/** `bootstrap_begun`: the seed of answers that name none, and the tokens of each that are known. */
function readBegun(fields: Fields): ((index: number) => BegunAnswer) | undefined {
  const name = "bootstrap_begun";
  const value = fields.value(name);
  if (value === undefined) return undefined;
  if (!isObject(value)) throw wrongType(name, "an object", value);
  const seed = requireWhole(value.seed, `${name}.seed`, { min: 0, max: 2 ** 32 - 1 });
  const { tokens } = value;
  if (!Array.isArray(tokens)) throw wrongType(`${name}.tokens`, "a list", tokens);
  const lists = tokens.map((list: unknown, i) => {
    const path = `${name}.tokens[${i}]`;
    if (!Array.isArray(list)) throw wrongType(path, "a list", list);
    return list.map((token: unknown) => requireWhole(token, path, { min: 0, max: 2 ** 32 - 1 }));
  });
  return (index) => ({
    seed: (seed + Math.imul(index, SEED_STEP)) >>> 0,
    tokens: lists[index] ?? [],
  });
}

/** One value for all, or some for each. */
type Given<T> = { readonly all: T | undefined } | { readonly list: readonly (T | undefined)[] };

function listOf<T>(
  fields: Fields,
  name: string,
  read: (value: unknown, path: string) => T,
): Given<T> {
  const value = fields.value(name);
  if (!Array.isArray(value)) return { all: value === undefined ? undefined : read(value, name) };
  const list = value.map((one: unknown, i) =>
    one === null ? undefined : read(one, `${name}[${i}]`),
  );
  return { list };
}

/** What an answer is given, and which of those it is that are given the same. */
function placeOf<T>(
  name: string,
  given: Given<T>,
  { index, count }: { readonly index: number; readonly count: number },
): readonly [value: T | undefined, within: number] {
  if ("all" in given) return [given.all, index];
  const { length } = given.list;
  if (length === 0 || count % length !== 0) {
    const state = `it has ${length} items, and there are ${count} answers`;
    throw new InvalidRequestError(`Cannot use ${name}: ${state}`, name);
  }
  const each = count / length;
  return [given.list[Math.floor(index / each)], index % each];
}

function requireHost(value: unknown, path: string): string {
  if (typeof value !== "string") throw wrongType(path, "a string", value);
  if (value === "" || value.length > HOST_UNITS) {
    const state = `it has ${value.length} characters, and a host's name has 1 to ${HOST_UNITS}`;
    throw new InvalidRequestError(`Cannot use ${path}: ${state}`, path);
  }
  if (value === FAKE_HOST) {
    throw new UnsupportedError(path, `${FAKE_HOST} stands for no server`, { field: path });
  }
  return value;
}

function requirePort(value: unknown, path: string): number {
  return requireWhole(value, path, { min: 1, max: LAST_PORT });
}

function requireRoom(value: unknown, path: string): string {
  return String(BigInt(requireWhole(value, path, { min: 0, max: ROOM_END })));
}

function requireWhole(
  value: unknown,
  path: string,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  if (typeof value !== "number" || !Number.isInteger(value)) {
    throw wrongType(path, "a whole number", value);
  }
  if (value >= min && value <= max) return value;
  throw new InvalidRequestError(`${path} must be from ${min} to ${max}, got ${value}`, path);
}

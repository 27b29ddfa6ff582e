/**
 * Every kind of hostile clients.
 *
 * @module
 */
import { CONSTRAINTS } from "./constraints.ts";
import { FLOODS } from "./floods.ts";
import { INTERFACES } from "./interfaces.ts";
import type { Kind } from "./neighbours.ts";
import { SOCKETS } from "./sockets.ts";
import { TEXTS } from "./texts.ts";

export const KINDS: readonly Kind[] = [
  ...FLOODS,
  ...TEXTS,
  ...CONSTRAINTS,
  ...SOCKETS,
  ...INTERFACES,
];

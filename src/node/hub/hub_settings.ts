/**
 * What the environment says about model hubs: the variables and the folders of the hub's own tools,
 * so that what one program has downloaded the other finds.
 *
 * @module
 */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { PUBLIC_HUB } from "../../checkpoint/hub_client.ts";
import { OptionError } from "../options/option_parser.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface HubSettings {
  /** Folder with one folder a model. */
  readonly cacheFolder: string;
  /** Address without a slash at its end. */
  readonly endpoint: string;
  readonly offline: boolean;
}

/**
 * @param endpoint Wins over the variable.
 * @throws {OptionError} when the endpoint is not an HTTP address.
 */
export function hubSettings(env: Environment, endpoint?: string): HubSettings {
  const configured = env.HF_HUB_CACHE || env.HUGGINGFACE_HUB_CACHE;
  return {
    cacheFolder: configured ? expand(configured) : join(hubHome(env), "hub"),
    endpoint: endpointOf(endpoint, env),
    offline: /^(1|on|yes|true)$/i.test(env.HF_HUB_OFFLINE ?? ""),
  };
}

/**
 * The access token, which is never taken from the command line: process lists show those.
 *
 * @throws {OptionError} when its file cannot be read, or it is none.
 */
export async function readToken(env: Environment): Promise<string | undefined> {
  const given = env.HF_TOKEN?.trim() || env.HUGGING_FACE_HUB_TOKEN?.trim();
  const path = env.HF_TOKEN_PATH ? expand(env.HF_TOKEN_PATH) : join(hubHome(env), "token");
  const token = given || (await readTokenFile(path));
  // The refusal of a header that cannot be sent would print it.
  if (token === undefined || /^[\x21-\x7e]+$/.test(token)) return token;
  const place = given ? "the environment" : path;
  throw new OptionError(`Cannot use the access token of ${place}: it has a character no token has`);
}

async function readTokenFile(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim() || undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    const problem = (error as Error).message;
    throw new OptionError(`Cannot read the access token ${path}: ${problem}`, { cause: error });
  }
}

function hubHome(env: Environment): string {
  if (env.HF_HOME) return expand(env.HF_HOME);
  const cache = env.XDG_CACHE_HOME ? expand(env.XDG_CACHE_HOME) : join(homedir(), ".cache");
  return join(cache, "huggingface");
}

/** Variables may hold a "~" that no shell has seen. */
function expand(path: string): string {
  return resolve(path.replace(/^~(?=$|[/\\])/, () => homedir()));
}

function endpointOf(option: string | undefined, env: Environment): string {
  const text = option ?? (env.HF_ENDPOINT || PUBLIC_HUB);
  const isHttp = URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
  if (isHttp) return text.replace(/\/+$/, "");
  const name = option === undefined ? "HF_ENDPOINT" : "option --endpoint";
  throw new OptionError(`Cannot use ${name} ${text}: it must be an address with http or https`);
}

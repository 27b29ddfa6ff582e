/**
 * Options for what a server may open for its clients.
 *
 * @module
 */
import { existsSync, statSync } from "node:fs";
import type { MediaAccess } from "../../server/media.ts";
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";
import { localMedia } from "./local_media.ts";
import { mediaUrls } from "./media_urls.ts";

const GROUP = "Access";

export const MEDIA_OPTIONS = {
  allowedLocalMediaPath: {
    flags: ["--allowed-local-media-path"],
    kind: "string",
    value: "DIR",
    defaultText: "none: names of files are refused",
    help: "folder whose images requests may name, and those of folders in it: every client may read them",
    group: GROUP,
  },
  allowedMediaDomains: {
    flags: ["--allowed-media-domains"],
    kind: "strings",
    value: "HOST",
    defaultText: "none: URLs are refused",
    help: "hosts whose images requests may name by http and https, such as images.example.org, or images.example.org:8443 for another port than the scheme's. The server never asks at addresses of this machine and of private networks, whatever a name stands for",
    group: GROUP,
  },
} as const satisfies OptionTable;

export type MediaOptionValues = OptionValues<typeof MEDIA_OPTIONS>;

/** @throws {OptionError} for what is no folder, and for what is no host. */
export function requireUsableMedia(options: MediaOptionValues): void {
  const { allowedLocalMediaPath: folder, allowedMediaDomains: domains = [] } = options;
  if (folder !== undefined && !(existsSync(folder) && statSync(folder).isDirectory())) {
    const [flag] = MEDIA_OPTIONS.allowedLocalMediaPath.flags;
    throw new OptionError(`Cannot use option ${flag} ${folder}: there is no such folder`);
  }
  const wrong = domains.find((domain) => !isHost(domain));
  if (wrong === undefined) return;
  const [flag] = MEDIA_OPTIONS.allowedMediaDomains.flags;
  const problem = "it is no host, such as images.example.org, without scheme and path";
  throw new OptionError(`Cannot use option ${flag} ${wrong}: ${problem}`);
}

function isHost(text: string): boolean {
  const url = URL.canParse(`http://${text}/`) ? new URL(`http://${text}/`) : undefined;
  // Port 80 is http's own, and goes unsaid.
  return url !== undefined && url.host === text.toLowerCase();
}

export function mediaOf(options: MediaOptionValues): MediaAccess {
  const { allowedLocalMediaPath: folder, allowedMediaDomains: domains } = options;
  return {
    ...(folder !== undefined && { readFile: localMedia(folder) }),
    ...(domains !== undefined && { fetch: mediaUrls({ domains }) }),
  };
}

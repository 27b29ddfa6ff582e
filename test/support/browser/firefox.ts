/**
 * Starts the machine's own Firefox without a window, with WebGPU on lavapipe. It opens one page, which
 * reports by itself, or is driven (`driven_firefox.ts`).
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cacheFolder } from "../../../src/node/cache_folder.ts";

const INSTALLED = ["/usr/bin/firefox-esr", "/usr/bin/firefox", "/usr/lib/firefox-esr/firefox-esr"];
const MANIFESTS = "/usr/share/vulkan/icd.d";

const PREFERENCES: Readonly<Record<string, boolean | number>> = {
  "dom.webgpu.enabled": true,
  "dom.webgpu.workers.enabled": true,
  "gfx.webgpu.force-enabled": true,
  "gfx.webgpu.ignore-blocklist": true,
  // The process that talks to the driver may then read the driver's files.
  "security.sandbox.gpu.level": 0,
  "app.update.enabled": false,
  "browser.shell.checkDefaultBrowser": false,
  "datareporting.policy.dataSubmissionEnabled": false,
  "toolkit.telemetry.reportingpolicy.firstRun": false,
};

export interface Firefox {
  /** Everything it has written so far, to be shown where a page does not report. */
  log(): string;
  /** Resolves when it has ended before it was closed. */
  readonly ended: Promise<string>;
  close(): Promise<void>;
}

/** Why no Firefox with WebGPU can be started here; nothing where one can. */
export function whyNoFirefox(): string | undefined {
  if (firefoxPath() === undefined) return "no Firefox is installed here";
  if (lavapipeManifest() === undefined) return "Firefox has no lavapipe of Mesa 25 here";
  return undefined;
}

/** What of a Firefox differs from one test to another. */
export interface FirefoxOptions {
  readonly preferences?: Readonly<Record<string, boolean | number>>;
  /** Before the address. */
  readonly args?: readonly string[];
}

/** A running Firefox that opens `url`, in a profile of its own. */
export function launchFirefox(url: string, options: FirefoxOptions = {}): Firefox {
  const reason = whyNoFirefox();
  if (reason !== undefined) throw new Error(`Cannot start Firefox: ${reason}`);
  const profile = mkdtempSync(join(tmpdir(), "wisp-firefox-"));
  const preferences = { ...PREFERENCES, ...options.preferences };
  const lines = Object.entries(preferences).map(
    ([name, value]) => `user_pref("${name}", ${value});\n`,
  );
  writeFileSync(join(profile, "user.js"), lines.join(""));
  const manifest = lavapipeManifest();
  const own = ["--headless", "--no-remote", "--profile", profile, ...(options.args ?? [])];
  const child = spawn(firefoxPath()!, [...own, url], {
    stdio: ["ignore", "pipe", "pipe"],
    // A group of its own: the browser is several processes.
    detached: true,
    env: {
      ...process.env,
      HOME: profile,
      VK_ICD_FILENAMES: manifest,
      VK_DRIVER_FILES: manifest,
      MESA_SHADER_CACHE_DIR: join(cacheFolder(), "mesa"),
    },
  });
  let log = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text: Buffer) => {
      log += text.toString();
    });
  }
  const kill = () => killGroup(child);
  process.once("exit", kill);
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(String(error)));
    child.once("exit", (code, signal) => resolve(`Firefox ended with ${code ?? signal}`));
  });
  return {
    log: () => log,
    ended,
    close: async () => {
      process.off("exit", kill);
      kill();
      await ended;
      rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

function firefoxPath(): string | undefined {
  return INSTALLED.find((path) => existsSync(path));
}

/** The manifest of a lavapipe that is new enough: Mesa 22 names an older Vulkan. */
function lavapipeManifest(): string | undefined {
  const names = existsSync(MANIFESTS) ? readdirSync(MANIFESTS) : [];
  return names
    .filter((name) => /^lvp_icd.*\.json$/.test(name))
    .map((name) => join(MANIFESTS, name))
    .find((path) => /"api_version": *"1\.([4-9]|[1-9]\d)/.test(readFileSync(path, "utf8")));
}

function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  process.kill(-pid, "SIGKILL");
}

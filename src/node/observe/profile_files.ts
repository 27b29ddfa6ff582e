/**
 * Profiles of a server, written as files into a folder that its operator has chosen.
 *
 * @module
 */
import { mkdir, writeFile } from "node:fs/promises";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { GenerationEngine } from "../../generation.ts";
import { chromeTrace, type Profile } from "../../profile.ts";
import type { ProfileControl, ProfileRequest } from "../../server/observe/profile_control.ts";

/** The profile that is being taken, or written. */
interface Run {
  readonly finish: () => void;
  /** Name of the file once it is written. */
  readonly file: Promise<string>;
  /** Whether a caller waits for the file, who then gets its error. */
  isAwaited: boolean;
}

export interface ProfileFilesOptions {
  /** Made when it is not there; nothing is written anywhere else. */
  readonly folder: string;
  /** Is told of every file that is written. It must not throw. */
  readonly onProfile?: (file: string, profile: Profile) => void;
  /** Is told what goes wrong when no caller waits for the profile. Default `console.error`. */
  readonly onError?: (error: unknown) => void;
}

export class ProfileFiles implements ProfileControl {
  readonly #engine: GenerationEngine;
  readonly #folder: string;
  readonly #options: ProfileFilesOptions;
  #run: Run | undefined;
  #count = 0;

  constructor(engine: GenerationEngine, options: ProfileFilesOptions) {
    this.#engine = engine;
    this.#folder = resolve(options.folder);
    this.#options = options;
  }

  async start(request: ProfileRequest): Promise<void> {
    const folder = this.#place(request.folder);
    if (this.#run !== undefined) {
      throw new InvalidRequestError("Cannot start a profile: /stop_profile ends the one before");
    }
    const { onError: report = (error) => console.error(error) } = this.#options;
    let finish = () => {};
    const finished = new Promise<void>((done) => {
      finish = done;
    });
    await new Promise<void>((started, failed) => {
      const onStart = () => {
        run.isAwaited = false;
        started();
      };
      const file = this.#take({ ...request, folder }, { onStart, finished });
      const run: Run = { finish, file, isAwaited: true };
      this.#run = run;
      file.then(
        () => {
          this.#run = undefined;
        },
        (error: unknown) => {
          this.#run = undefined;
          failed(error);
          if (!run.isAwaited) report(error);
        },
      );
    });
  }

  async #take(
    request: ProfileRequest & { readonly folder: string },
    { onStart, finished }: { readonly onStart: () => void; readonly finished: Promise<void> },
  ): Promise<string> {
    const { folder } = request;
    if (this.#engine.profile === undefined) {
      throw new UnsupportedError("a profile", "this engine cannot be measured");
    }
    await mkdir(folder, { recursive: true });
    const work = () => {
      onStart();
      return finished;
    };
    const profile = await this.#engine.profile(work, request);
    this.#count += 1;
    const time = new Date().toISOString().replaceAll(":", "-");
    const file = join(folder, `wisp-${time}-${this.#count}.trace.json`);
    await writeFile(file, JSON.stringify(chromeTrace(profile, request)), { flag: "wx" });
    this.#options.onProfile?.(file, profile);
    return relative(this.#folder, file);
  }

  async stop(): Promise<string> {
    if (this.#run === undefined) {
      throw new InvalidRequestError("Cannot stop a profile: /start_profile has started none");
    }
    this.#run.isAwaited = true;
    this.#run.finish();
    return this.#run.file;
  }

  /** Waits for a profile that ends because its engine is closed. */
  async settled(): Promise<void> {
    await this.#run?.file.catch(() => {}); // `onError` is told
  }

  /** Clients choose where in the operator's folder, and never anything outside of it. */
  #place(wanted = ""): string {
    const place = resolve(this.#folder, wanted);
    const way = relative(this.#folder, place);
    const isOutside = way === ".." || way.startsWith(`..${sep}`) || isAbsolute(way);
    if (!isOutside && !wanted.includes("\0")) return place;
    throw new InvalidRequestError(
      "Cannot use output_dir: it must be in the folder of the server's option --profile-dir",
      "output_dir",
    );
  }
}

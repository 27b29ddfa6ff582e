/**
 * What MPI asks while it starts: the Process Management Interface, version 1, which MPICH and its
 * kin speak. Ranks put values under keys, wait for each other, and read what the others have put.
 *
 * Each launcher answers its own ranks, over a pipe that only they have; what is put goes to other
 * nodes with the launchers' next fence.
 *
 * @module
 */
import type { Duplex } from "node:stream";

/** Limits that ranks are told, or that none comes near. */
const KEY_LENGTH = 64;
const VALUE_LENGTH = 1024;
const LINE_LENGTH = 4096;
const KEYS_OF_A_RANK = 256;

const SPACE = "wisp";
/** The key under which MPI looks for which rank is on which node. */
const MAPPING = "PMI_process_mapping";

export type KeyValues = Readonly<Record<string, string>>;

export interface PmiOptions {
  /** Ranks of all nodes. */
  readonly size: number;
  readonly nodes: number;
  /** Ranks that this service answers. */
  readonly localRanks: number;
  /** Gives this node's new values to all nodes, and resolves with those of all once all have come. */
  readonly fence: (own: KeyValues) => Promise<KeyValues>;
  /** A rank says that it cannot go on, or says what makes no sense. */
  readonly onFailure: (rank: number, problem: string) => void;
}

type Command = Readonly<Record<string, string | undefined>>;

export class PmiService {
  readonly #options: PmiOptions;
  readonly #known = new Map<string, string>();
  #fresh: Record<string, string> = {};
  #waiting: Duplex[] = [];

  constructor(options: PmiOptions) {
    this.#options = options;
    const { nodes, localRanks } = options;
    this.#known.set(MAPPING, `(vector,(0,${nodes},${localRanks}))`);
  }

  /** Answers one rank until its stream ends. */
  serve(stream: Duplex, rank: number): void {
    let text = "";
    stream.setEncoding("latin1");
    // A rank that ends is its process's matter.
    stream.on("error", () => stream.destroy());
    stream.on("data", (more: string) => {
      const lines = (text + more).split("\n");
      text = lines.pop()!;
      if (text.length > LINE_LENGTH || lines.some((line) => line.length > LINE_LENGTH)) {
        this.#options.onFailure(rank, "it sent a line without end while MPI started");
        stream.destroy();
        return;
      }
      for (const line of lines) this.#handle(parse(line), rank, stream);
    });
  }

  #handle(command: Command, rank: number, stream: Duplex): void {
    if (command.cmd === "barrier_in") this.#wait(stream);
    else if (command.cmd === "abort") this.#options.onFailure(rank, "MPI has ended it");
    else stream.write(`${this.#answer(command)}\n`);
  }

  #answer(command: Command): string {
    switch (command.cmd) {
      case "init":
        return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
      case "get_maxes":
        return `cmd=maxes rc=0 kvsname_max=256 keylen_max=${KEY_LENGTH} vallen_max=${VALUE_LENGTH}`;
      case "get_appnum":
        return "cmd=appnum rc=0 appnum=0";
      case "get_my_kvsname":
        return `cmd=my_kvsname rc=0 kvsname=${SPACE}`;
      case "get_universe_size":
        return `cmd=universe_size rc=0 size=${this.#options.size}`;
      case "put":
        return `cmd=put_result ${this.#put(command)}`;
      case "get":
        return `cmd=get_result ${this.#get(command)}`;
      case "finalize":
        return "cmd=finalize_ack rc=0";
      default:
        return `cmd=${command.cmd ?? "unknown"}_result rc=-1 msg=unknown_command`;
    }
  }

  #put({ key, value }: Command): string {
    if (key === undefined || value === undefined) return "rc=-1 msg=no_key_or_value";
    if (key.length > KEY_LENGTH || value.length > VALUE_LENGTH) return "rc=-1 msg=too_long";
    if (this.#known.has(key) || Object.hasOwn(this.#fresh, key)) return "rc=-1 msg=key_is_taken";
    if (Object.keys(this.#fresh).length >= KEYS_OF_A_RANK * this.#options.localRanks) {
      return "rc=-1 msg=too_many";
    }
    this.#fresh[key] = value;
    return "rc=0 msg=success";
  }

  #get({ key = "" }: Command): string {
    const value = this.#known.get(key) ?? ownValue(this.#fresh, key);
    return value === undefined
      ? "rc=-1 msg=key_not_found value=unknown"
      : `rc=0 msg=success value=${value}`;
  }

  /** Lets the ranks go on once all of them, on all nodes, wait. */
  #wait(stream: Duplex): void {
    this.#waiting.push(stream);
    if (this.#waiting.length < this.#options.localRanks) return;
    const waiting = this.#waiting;
    const fresh = this.#fresh;
    this.#waiting = [];
    this.#fresh = {};
    this.#options.fence(fresh).then(
      (values) => {
        for (const [key, value] of Object.entries(values)) this.#known.set(key, value);
        for (const one of waiting) one.write("cmd=barrier_out rc=0\n");
      },
      // The group has ended, and its ranks with it.
      () => {},
    );
  }
}

function ownValue(values: KeyValues, key: string): string | undefined {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}

/** A line of words like `cmd=put`. */
function parse(line: string): Command {
  const command: Record<string, string> = Object.create(null);
  for (const word of line.trim().split(/\s+/)) {
    const equals = word.indexOf("=");
    if (equals > 0) command[word.slice(0, equals)] = word.slice(equals + 1);
  }
  return command;
}

/**
 * The engine of a group of ranks that are processes or threads, as the server of node 0 has it: the
 * server is in the launcher's process and thread, where no exchange between ranks delays a stream.
 *
 * @module
 */
import type { SharedLayout } from "../../cache/page_form.ts";
import { type OpenedPort, openPort, RemoteEngine } from "../../engine/remote/remote_engine.ts";
import { GroupError } from "../../errors.ts";
import type { GenerationChunk } from "../../generation.ts";
import type { Facts } from "../../parallel/agree.ts";
import type { RoleCounts } from "../../server/server_context.ts";
import type { RoleOptions } from "../disaggregation/disaggregation_options.ts";
import type { RoutedRequest } from "../disaggregation/replica_door.ts";
import { EXIT, LaunchError } from "../mpi/launch_error.ts";
import { deferred } from "../mpi/nodes.ts";
import type { OuterGroup } from "../mpi/outer_launcher.ts";
import type { GroupPlace } from "../mpi/rank_options.ts";
import type { Logger } from "../observe/logger.ts";
import type {
  ReplicaPart,
  StartEngine,
  StartedEngine,
  StartOptions,
} from "../serve/start_engine.ts";
import { lineReport, type StartReport } from "../serve/start_report.ts";
import { type LaunchRanksOptions, launchRanks } from "./launch_ranks.ts";
import { TalkPort, type ToRank, tellReport } from "./rank_talk.ts";
import { RestartingEngine } from "./restarting_engine.ts";
import { Restarts } from "./restarts.ts";

export interface StartRanksOptions {
  readonly place: GroupPlace;
  /** The group of another program's launcher, where this process is one of those that it has started. */
  readonly outer?: OuterGroup;
  /** What the first rank shares with other servers, if it does. */
  readonly role?: RoleOptions | undefined;
  /** Whether a group that has ended is started again. */
  readonly restart: boolean;
  readonly log: Logger;
  /** Gives the first start up. */
  readonly signal?: AbortSignal | undefined;
  /** Starts the ranks, and resolves once they have done their work. Default: as processes. */
  readonly launch?: (given: LaunchRanksOptions) => Promise<void>;
}

/** Starts the ranks of node 0, of one replica where there are several, and waits for those of all others. */
export function startRanks(given: StartRanksOptions): StartEngine {
  const { restart } = given;
  return (options, report, part) => {
    const number = part?.number ?? part?.replica;
    const log = number === undefined ? given.log : given.log.ofReplica(number);
    const facts = { "--restart": restart };
    return RestartingEngine.start({
      log,
      restarts: new Restarts(restart, log),
      signal: given.signal,
      start: (signal) => startGroup({ ...given, log }, { options, facts, report, part, signal }),
    });
  };
}

interface GroupStart {
  readonly options: StartOptions;
  readonly facts: Facts;
  readonly report: StartReport;
  readonly part: ReplicaPart | undefined;
}

/** @param start Its signal gives the start up. */
async function startGroup(
  given: StartRanksOptions,
  { signal, ...start }: GroupStart & { readonly signal: AbortSignal },
): Promise<StartedEngine> {
  const ending = new AbortController();
  const giveUp = () => ending.abort(signal.reason);
  signal.addEventListener("abort", giveUp);
  try {
    return await startUnder(ending, given, start);
  } finally {
    // The signal lasts as long as the server, and groups may be started many times.
    signal.removeEventListener("abort", giveUp);
  }
}

async function startUnder(
  ending: AbortController,
  { place, outer, role, log, launch = launchRanks }: StartRanksOptions,
  { options, facts, report, part }: GroupStart,
): Promise<StartedEngine> {
  let say: (message: ToRank) => void = () => {};
  const port = new TalkPort((message) => say(message));
  const loaded = deferred<void>();
  let rooms: RoleCounts | undefined;
  let meeting: MeetingPlace | undefined;
  const group = launch({
    place,
    outer,
    part,
    options,
    role: role && part !== undefined ? roleOfReplica(role) : role,
    facts,
    reportsSteps: report.step !== undefined,
    onBound: (sentence) => report.sizes([sentence]),
    signal: ending.signal,
    onStart: (sayTo) => {
      say = (message) => sayTo(message, 0);
    },
    onMessage: (message, rank) => {
      if (message.type === "report") {
        tellReport(rank === 0 ? report : lineReport(log.ofRank(rank)), message);
      }
      if (message.type === "engine") port.hear(message.message);
      if (message.type === "event") log.event("info", message.text);
      if (message.type === "rooms") rooms = message.counts;
      if (message.type === "meets" && part !== undefined) meeting = message;
      if (message.type === "loaded" && rank === 0) loaded.resolve();
    },
  });
  let failure: Error | undefined;
  group.catch((error: Error) => {
    failure = error;
    loaded.reject(error);
    port.onEnd?.(error.message);
  });
  await loaded.promise;
  const opened = await openPort(port).catch((error: unknown) => {
    // Where the group has ended, its own error has the exit code.
    throw failure ?? error;
  });
  return new GroupEngine(opened, {
    group,
    meeting,
    roomCounts: role && (() => (failure === undefined ? rooms! : withoutRooms(rooms!))),
    stop: () => say({ type: "stop" }),
    end: (error) => ending.abort(error),
  });
}

/** A replica of a prefill server is met at a port of its own, which the server's own port tells. */
function roleOfReplica(role: RoleOptions): RoleOptions {
  const isMet = role.disaggregationMode === "prefill";
  return isMet ? { ...role, disaggregationBootstrapPort: 0 } : role;
}

/** Where decode servers find the rooms of a replica, and what pages they get. */
interface MeetingPlace {
  readonly port: number;
  readonly layout: SharedLayout;
}

/** What is left of rooms whose rank is gone. */
function withoutRooms(counts: RoleCounts): RoleCounts {
  const { awaited, frames } = counts;
  return {
    ...counts,
    rooms: 0,
    transferring: 0,
    servers: 0,
    ...(awaited !== undefined && { awaited: 0 }),
    ...(frames !== undefined && { frames: 0 }),
  };
}

interface Group {
  /** Settles when it has ended. */
  readonly group: Promise<void>;
  /** Of a replica of a prefill server, which others are told of here. */
  readonly meeting: MeetingPlace | undefined;
  readonly roomCounts: StartedEngine["roomCounts"];
  /** Has its ranks end their work. */
  stop(): void;
  /** Ends them. */
  end(error: LaunchError): void;
}

/** For ranks to end in order: longer than an exchange may take. */
const LEAVING_MILLISECONDS = 35_000;

class GroupEngine extends RemoteEngine implements StartedEngine {
  readonly lost: Promise<never>;
  readonly pageLayout: StartedEngine["pageLayout"];
  readonly roomCounts: StartedEngine["roomCounts"];
  readonly #group: Group;
  #isLeaving = false;

  constructor(opened: OpenedPort, group: Group) {
    super(opened);
    this.#group = group;
    this.pageLayout = group.meeting?.layout;
    this.roomCounts = group.roomCounts;
    this.lost = new Promise((_, reject) => {
      group.group.catch(reject);
    });
    this.ended.then(() => {
      const silent = "Cannot go on without rank 0: its engine does not answer any more";
      if (!this.#isLeaving) group.end(new LaunchError(silent, EXIT.lost));
    });
  }

  override generate({
    onRoute,
    ...request
  }: RoutedRequest): AsyncIterableIterator<GenerationChunk, undefined> {
    const { meeting } = this.#group;
    if (meeting !== undefined) onRoute?.(meeting.port);
    return super.generate(request);
  }

  override async close(): Promise<void> {
    this.#isLeaving = true;
    await super.close();
    this.#group.stop();
    const silent = "Cannot end the group in order: rank 0 does not answer";
    const late = setTimeout(
      () => this.#group.end(new LaunchError(silent, EXIT.lost)),
      LEAVING_MILLISECONDS,
    );
    try {
      await this.#group.group;
    } finally {
      clearTimeout(late);
    }
  }

  protected override failureOf(problem: string, cause: unknown): GroupError {
    return new GroupError(`Cannot generate: ${problem}`, { cause });
  }
}

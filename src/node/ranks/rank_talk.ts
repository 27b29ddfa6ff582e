/**
 * What a server's launcher and its ranks say to each other, as plain data.
 *
 * @module
 */
import type { SharedLayout } from "../../cache/page_form.ts";
import type { Port } from "../../engine/remote/port.ts";
import type { Facts } from "../../parallel/agree.ts";
import type { RoleCounts } from "../../server/server_context.ts";
import type { RoleOptions } from "../disaggregation/disaggregation_options.ts";
import type { LocalRanksOf } from "../serve/open_model.ts";
import type { StartOptions } from "../serve/start_engine.ts";
import type { StartReport } from "../serve/start_report.ts";

/** The lines of a report, without what it may leave out. */
export type ReportMethod = Exclude<keyof StartReport, "ofReplica">;

export type ToRank =
  /** Comes first. */
  | {
      readonly type: "load";
      readonly options: StartOptions;
      /** What the first rank shares with other servers, if it does. */
      readonly role?: RoleOptions | undefined;
      readonly facts: Facts;
      /** Of this machine's ranks, which share its adapters. */
      readonly local: LocalRanksOf;
      /** Whether the first rank tells of each step. */
      readonly reportsSteps: boolean;
    }
  /** To the engine of the first rank, from the server. */
  | { readonly type: "engine"; readonly message: unknown }
  /** To the first rank: its engine, and with it the group, is not wanted any more. */
  | { readonly type: "stop" };

export type FromRank =
  | {
      readonly type: "report";
      readonly method: ReportMethod;
      readonly values: readonly unknown[];
      /** The attention group that it is of, where it is of one. */
      readonly replica?: number | undefined;
    }
  /** This rank's part of the model is there. */
  | { readonly type: "loaded" }
  /** Something has happened between the first rank and another server. */
  | { readonly type: "event"; readonly text: string }
  /** What the first rank has of requests that it shares has changed. */
  | { readonly type: "rooms"; readonly counts: RoleCounts }
  /** Where decode servers meet the first rank, and what pages they get there. */
  | { readonly type: "meets"; readonly port: number; readonly layout: SharedLayout }
  /** From the engine of the first rank. */
  | { readonly type: "engine"; readonly message: unknown };

/** Of each group its own, which counts its steps for as long as the start's is there. */
const OF_REPLICAS = new WeakMap<StartReport, Map<number, StartReport>>();

function reportOf(whole: StartReport, replica: number | undefined): StartReport {
  if (replica === undefined || whole.ofReplica === undefined) return whole;
  const known = OF_REPLICAS.get(whole) ?? new Map<number, StartReport>();
  OF_REPLICAS.set(whole, known);
  const report = known.get(replica) ?? whole.ofReplica(replica);
  known.set(replica, report);
  return report;
}

/** Has a report tell what a rank has said. */
export function tellReport(
  whole: StartReport,
  { method, values, replica }: Extract<FromRank, { type: "report" }>,
): void {
  const report = reportOf(whole, replica);
  (report[method] as ((...values: readonly unknown[]) => void) | undefined)?.(...values);
}

/** One end of the way between the engine of the first rank and the server. */
export class TalkPort implements Port {
  readonly #say: (message: { readonly type: "engine"; readonly message: unknown }) => void;
  #onMessage: Port["onMessage"];
  #unheard: unknown[] = [];
  onEnd: Port["onEnd"];

  constructor(say: (message: { readonly type: "engine"; readonly message: unknown }) => void) {
    this.#say = say;
  }

  get onMessage(): Port["onMessage"] {
    return this.#onMessage;
  }

  set onMessage(take) {
    this.#onMessage = take;
    if (take !== undefined) for (const message of this.#unheard.splice(0)) take(message);
  }

  post(message: unknown): void {
    this.#say({ type: "engine", message });
  }

  /** Something has come from the other end. */
  hear(message: unknown): void {
    if (this.#onMessage === undefined) this.#unheard.push(message);
    else this.#onMessage(message);
  }

  close(): void {
    this.onEnd = undefined;
    this.#onMessage = () => {};
  }
}

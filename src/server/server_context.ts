/**
 * What every endpoint is given.
 *
 * @module
 */
import type { DisaggregatedSide } from "../errors.ts";
import type { GenerationEngine } from "../generation.ts";
import type { BodyMemory } from "../http/body_memory.ts";
import type { ReasoningParserName } from "../text/reasoning/formats.ts";
import type { ToolCallParserName } from "../text/tool_calls/formats.ts";
import type { ByteBudget } from "./byte_budget.ts";
import type { BootstrapOf } from "./fields/bootstrap_fields.ts";
import type { Lifecycle } from "./guard/lifecycle.ts";
import type { LiveRequests } from "./live_requests.ts";
import type { MediaAccess } from "./media.ts";
import type { ExpertRecordControl } from "./observe/expert_record_control.ts";
import type { GenerationRate } from "./observe/generation_rate.ts";
import type { HealthProbe } from "./observe/health_probe.ts";
import type { MetricsPage } from "./observe/metrics_page.ts";
import type { ProfileControl } from "./observe/profile_control.ts";
import type { ResponseStore } from "./responses/response_store.ts";

/** How the model writes what is no plain text. */
export interface MessageForms {
  /** Absent: its tool calls stay content. */
  readonly toolCalls?: ToolCallParserName;
  /** Absent: its reasoning stays content. */
  readonly reasoning?: ReasoningParserName;
}

/** What health checks look at. */
export interface HealthOptions {
  /** As it is, so that no observer is told of a health check. */
  readonly engine: GenerationEngine;
  /** Seconds without a finished step, while there is work, after which an engine counts as stuck. */
  readonly watchdogTimeout: number;
  readonly probe: HealthProbe;
}

/** What a server has of requests that two share, and has had, by the names of the wire. */
export interface RoleCounts {
  /** Requests that are there; of them those whose pages are on their way. */
  readonly rooms: number;
  readonly transferring: number;
  /** Of a prefill server: requests that decode servers have, and that have not come here yet. */
  readonly awaited?: number;
  /** Of a prefill server: messages with pages on their way. */
  readonly frames?: number;
  /** Servers of the other kind that are connected. */
  readonly servers: number;
  /** All so far. */
  readonly opened: number;
  readonly failed: number;
  /** Of those that failed: before pages were asked for. */
  readonly failed_before_transfer: number;
  readonly failures: Readonly<Record<string, number>>;
  /** Sent by a prefill server, received by a decode server. */
  readonly pages: number;
  readonly page_bytes: number;
  /** Prompts whose pages are all in place, and the seconds of all of them. */
  readonly transfers: number;
  readonly transfer_seconds: number;
  /** Of the last of them. */
  readonly kv_transfer_speed_gb_s: number;
  readonly kv_transfer_latency_ms: number;
}

/** What a server does that shares each request with another one. */
export interface EngineRole {
  readonly name: DisaggregatedSide;
  /** Absent where nothing here knows them, as in a page whose engine's worker takes cache pages. */
  counts?(): RoleCounts;
  /** The engine that does its part of requests, of which each has `bootstrap`. */
  over(engine: GenerationEngine): GenerationEngine;
}

export type CountedRole = Required<EngineRole>;

export interface ServerContext {
  /** Absent: requests are its own. */
  readonly role: EngineRole | undefined;
  /** Where requests meet those of the other server. */
  readonly bootstraps: WeakMap<Request, BootstrapOf>;
  readonly engine: GenerationEngine;
  /** How fast it generates. */
  readonly rate: GenerationRate;
  /** Responses that may be asked for again. */
  readonly responses: ResponseStore;
  /** What is being answered. */
  readonly live: LiveRequests;
  /** What answers hold of log-probabilities until their clients have them. */
  readonly logprobMemory: ByteBudget;
  /** Whether `usage` tells how much of a prompt was in the prefix cache. */
  readonly cacheReport: boolean;
  /** The forms in which answers of a chat are parsed. */
  readonly forms: MessageForms;
  readonly lifecycle: () => Lifecycle;
  readonly health: HealthOptions;
  /** Absent: nothing is counted. */
  readonly metrics: MetricsPage | undefined;
  /** Absent: none are taken. */
  readonly profiles: ProfileControl | undefined;
  /** Absent: nothing is recorded. */
  readonly expertRecords: ExpertRecordControl | undefined;
  /** How the server was started, for those who ask; by the names of the wire. */
  readonly description: Readonly<Record<string, unknown>>;
  /** Name of the model in answers to requests that name none. */
  readonly servedModelName: string;
  /** Its ids at `/v1/models`, that name in front. */
  readonly modelNames: readonly string[];
  /** Unix time in seconds at which the server came up. */
  readonly startedAt: number;
  /** Size of a request body at most. */
  readonly maxBodyBytes: number;
  /** What it opens for its clients. */
  readonly media: MediaAccess;
  /** What the bodies of all requests take. */
  readonly bodies: BodyMemory;
  /** Is told the name of each field that was taken and has no effect. */
  readonly onIdle: (name: string) => void;
  /** Is told of every error that is not the client's. */
  readonly reportError: (error: unknown, request: Request) => void;
}

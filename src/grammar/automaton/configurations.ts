/**
 * Where a text may stand in a grammar: sets of threads, made when first needed.
 *
 * A configuration holds every way to read the text so far, and is itself the state of a
 * deterministic automaton whose edges are found by following all threads over one byte. Equal
 * configurations are one object while they are remembered. No configuration is a dead end: a thread
 * is kept only while it can still get out of its whole stack within the limit on depth.
 *
 * A thread that another one covers (same place, and every count at least as free) is dropped: its
 * texts are the other's too. That keeps `(a+b?){0,99}` at one thread instead of a hundred.
 *
 * @module
 */

import { isSign } from "../distinct/distinct_bytes.ts";
import { GrammarError } from "../grammar_error.ts";
import type { ListRole } from "./automaton_node.ts";
import type { ByteAutomaton } from "./byte_automaton.ts";
import { type ByteGroups, byteGroups } from "./byte_groups.ts";
import { Configuration, type GroupsOfNodes, hasNodes, isSame, mixed } from "./configuration.ts";
import type { ConfigurationLimits } from "./configuration_limits.ts";
import * as size from "./configuration_limits.ts";
import { Frame, type Horizons, type Thread, withoutCovered } from "./frames.ts";
import { type NodeView, NodeViews } from "./node_views.ts";
import { WrittenParts } from "./unordered_list.ts";

export type { Configuration };

export class Configurations {
  readonly automaton: ByteAutomaton;
  readonly maxDepth: number;
  readonly #horizons: Horizons;
  readonly #maxThreads: number;
  readonly #maxWork: number;
  readonly #maxBytes: number;
  #views: NodeViews;
  #bottom: Frame;
  /** By a hash of their threads; those with the same one are a chain. */
  #known = new Map<number, Configuration>();
  #knownCount = 0;
  #knownThreads = 0;
  #knownEdges = 0;
  #start: Configuration | undefined;
  /** By a hash of the nodes. */
  #groups = new Map<number, GroupsOfNodes>();

  // One operation: the work that is left, and memory that it must not pass.
  #work = 0;
  #mostBytes = 0;

  // One search: the threads still to be looked at, those kept, what was seen.
  #stamp = 0;
  #pending: Thread[] = [];
  #accepting = false;
  #reach = 0;

  constructor(automaton: ByteAutomaton, limits: ConfigurationLimits = {}) {
    this.automaton = automaton;
    this.maxDepth = limits.maxDepth ?? 10_000;
    this.#horizons = limits.horizons ?? { near: 16, far: 128 };
    this.#maxThreads = limits.maxThreads ?? 10_000;
    this.#maxWork = limits.maxWork ?? 400_000;
    this.#maxBytes = limits.maxBytes ?? 64 * 2 ** 20;
    this.#bottom = Frame.bottom(this.#horizons, automaton);
    this.#views = this.#noViews();
    this.begin();
    if (automaton.depthNeeds[automaton.start]! > this.maxDepth) {
      throw new GrammarError(
        `Cannot use the grammar: every text nests deeper than ${this.maxDepth}`,
      );
    }
  }

  /** Where every text begins. */
  get start(): Configuration {
    this.#start ??= this.#search(() => this.#visit(this.automaton.start, this.#bottom));
    return this.#start;
  }

  /** Threads that may still be followed in this operation. */
  get workLeft(): number {
    return this.#work;
  }

  /** Memory that is remembered, roughly. */
  get bytes(): number {
    const { threads, frames } = this.#bottom.population;
    const perGroups = size.GROUPS_BYTES + 2 * this.automaton.classes.length;
    return (
      threads * size.THREAD_BYTES +
      frames * size.FRAME_BYTES +
      this.#knownCount * size.CONFIGURATION_BYTES +
      this.#knownEdges * size.EDGE_BYTES +
      this.#groups.size * perGroups +
      (this.#knownThreads + this.#views.entries) * size.REFERENCE_BYTES
    );
  }

  /**
   * Begins an operation, whose work is limited. Forgets everything when memory has run out;
   * configurations that are in use stay as they are.
   */
  begin(): void {
    this.#work = this.#maxWork;
    const kept = this.bytes <= this.#maxBytes ? this.bytes : 0;
    this.#mostBytes = kept + Math.max(size.OPERATION_BYTES, this.#maxBytes / 2);
    if (this.bytes > this.#maxBytes) this.forget();
  }

  /** Forgets everything; configurations that are in use stay as they are. Not within an operation. */
  forget(): void {
    this.#bottom = Frame.bottom(this.#horizons, {
      repeats: this.automaton.repeats,
      before: this.#bottom,
    });
    this.#known = new Map();
    this.#knownCount = 0;
    this.#knownThreads = 0;
    this.#views = this.#noViews();
    this.#start = undefined;
    this.#groups = new Map();
    this.#knownEdges = 0;
  }

  /**
   * Goes on by one byte.
   *
   * @returns null when no text goes on so.
   * @throws {GrammarError} when there are too many ways to read the text, or the operation is at the
   * end of its work.
   */
  step(configuration: Configuration, byteClass: number): Configuration | null {
    const known = configuration.next(byteClass);
    if (known !== undefined) return known;
    const groups = configuration.groups ?? this.#group(configuration);
    const group = groups.groupOf[byteClass]!;
    const next = group === 0 ? null : this.#land(configuration, this.automaton.classes[byteClass]!);
    configuration.nexts[group] = next;
    return next;
  }

  /** Where a byte leads with all that follows it silently. */
  #land({ threads }: Configuration, byte: number): Configuration | null {
    const steps: Thread[] = [];
    for (const { node, frame } of threads) {
      const { edges } = this.view(node);
      for (let i = 0; i < edges.length && edges[i]! >>> 8 <= byte; i += 2) {
        if ((edges[i]! & 0xff) >= byte) steps.push(frame.thread(edges[i + 1]!));
      }
    }
    const only = steps.length === 1 ? steps[0]! : undefined;
    if (only?.landed !== undefined) return only.landed as Configuration | null;
    const found = this.#search(() => {
      for (const { node, frame } of steps) this.#visit(node, frame);
    });
    const landed = found.threads.length > 0 || found.accepting ? found : null;
    if (only !== undefined) only.landed = landed;
    return landed;
  }

  /** Bytes are alike to all configurations with the same nodes. */
  #group(configuration: Configuration): ByteGroups {
    const { threads } = configuration;
    let hash = 0;
    for (let i = 0; i < threads.length; i++) hash = mixed(hash, threads[i]!.node);
    let known = this.#groups.get(hash);
    if (known === undefined || !hasNodes(threads, known.nodes)) {
      const groups = byteGroups(
        threads.map(({ node }) => this.view(node).edges),
        this.automaton,
      );
      known = { groups, nodes: Uint32Array.from(threads, ({ node }) => node) };
      // Of two sets of nodes with the same hash the later one is kept.
      this.#groups.set(hash, known);
    }
    const { groups } = known;
    configuration.groups = groups;
    this.#knownEdges += groups.size;
    return groups;
  }

  /** Goes on by some bytes; null when no text goes on so. */
  follow(configuration: Configuration, bytes: Uint8Array): Configuration | null {
    const { classOf } = this.automaton;
    let at: Configuration | null = configuration;
    for (let i = 0; i < bytes.length && at !== null; i++) at = this.step(at, classOf[bytes[i]!]!);
    return at;
  }

  /** The only byte that a text can go on by, or undefined when there are none or several. */
  onlyByte(configuration: Configuration): number | undefined {
    const { classOf, classes } = this.automaton;
    const tried = new Set<number>();
    let only: number | undefined;
    for (const { node } of configuration.threads) {
      const { edges } = this.view(node);
      for (let i = 0; i < edges.length; i += 2) {
        const [first, last] = [classOf[edges[i]! >>> 8]!, classOf[edges[i]! & 0xff]!];
        for (let byteClass = first; byteClass <= last; byteClass++) {
          if (tried.has(byteClass) || isSign(classes[byteClass]!)) continue;
          tried.add(byteClass);
          if (this.step(configuration, byteClass) === null) continue;
          const begin = classes[byteClass]!;
          const isSingle = begin === 255 || classOf[begin + 1] !== byteClass;
          if (!isSingle || only !== undefined) return undefined;
          only = begin;
        }
      }
    }
    return only;
  }

  /** Just these threads, for what is asked of each on its own. */
  of(threads: readonly Thread[], accepting = false, reach = 0): Configuration {
    const distinct = withoutCovered([...new Set(threads)]).sort((a, b) => a.id - b.id);
    return this.#intern(distinct, { accepting, reach });
  }

  /** The threads of two configurations. */
  joined(a: Configuration, b: Configuration): Configuration {
    const [accepting, reach] = [a.accepting || b.accepting, Math.max(a.reach, b.reach)];
    return this.of([...a.threads, ...b.threads], accepting, reach);
  }

  /** Where a text stands right behind a rule. */
  behind(rule: Frame): Configuration {
    return this.#search(() => this.#visit(rule.back, rule.parent!));
  }

  /** The threads of one rule call, as if the rule were the whole grammar: a text ends with it. */
  within(rule: Frame, threads: readonly Thread[]): Configuration {
    const moved = threads.map(({ node, frame }) => {
      this.spend(1 + frame.depth - rule.depth);
      return frame.moved(rule, this.#bottom).thread(node);
    });
    return this.of(moved);
  }

  /** What stands in for a configuration for texts of at most so many bytes as a horizon. */
  seen({ threads, accepting }: Configuration, horizon: keyof Horizons): Configuration {
    return this.of(
      threads.map(({ node, frame }) => frame[horizon].thread(node)),
      accepting,
    );
  }

  #noViews(): NodeViews {
    return new NodeViews(this.automaton, (nodes) => {
      this.#work -= nodes;
    });
  }

  #search(begin: () => void): Configuration {
    this.#stamp += 1;
    this.#pending = [];
    this.#accepting = false;
    this.#reach = 0;
    begin();
    const kept: Thread[] = [];
    for (let i = 0; i < this.#pending.length; i++) {
      const thread = this.#pending[i]!;
      if (this.view(thread.node).edges.length > 0) kept.push(thread);
      this.#expand(thread);
    }
    const threads = withoutCovered(kept).sort((a, b) => a.id - b.id);
    if (threads.length > this.#maxThreads) {
      throw new GrammarError(
        `Cannot follow the grammar: a text can be read in more than ${this.#maxThreads} ways at once`,
      );
    }
    return this.#intern(threads, { accepting: this.#accepting, reach: this.#reach });
  }

  #intern(
    threads: readonly Thread[],
    { accepting, reach }: { accepting: boolean; reach: number },
  ): Configuration {
    let hash = accepting ? 1 : 0;
    for (let i = 0; i < threads.length; i++) hash = mixed(hash, threads[i]!.id);
    const first = this.#known.get(hash);
    let known = first;
    while (known !== undefined && !isSame(known, threads, accepting)) known = known.alike;
    if (known === undefined) {
      known = new Configuration(threads, { accepting, reach });
      known.alike = first;
      this.#known.set(hash, known);
      this.#knownCount += 1;
      this.#knownThreads += threads.length;
    }
    known.reach = Math.max(known.reach, reach);
    return known;
  }

  /** Remembers a place to look at, unless it was seen or could not get out of its stack. */
  #visit(node: number, frame: Frame): void {
    const depth = frame.depth + this.automaton.depthNeeds[node]!;
    if (depth > this.maxDepth) return;
    const thread = frame.thread(node);
    if (thread.stamp === this.#stamp) return;
    thread.stamp = this.#stamp;
    this.spend(1);
    if ((this.#pending.length & size.PENDING_MASK) === 0 && this.bytes > this.#mostBytes) {
      throw new GrammarError("Cannot follow the grammar: a single step takes too much memory");
    }
    this.#reach = Math.max(this.#reach, depth);
    this.#pending.push(thread);
  }

  /**
   * Counts threads that are followed, or other work that takes as long.
   *
   * @throws {GrammarError} when the operation is at the end of its work.
   */
  spend(count: number): void {
    this.#work -= count;
    if (this.#work >= 0) return;
    throw new GrammarError("Cannot follow the grammar: a single step takes too much work");
  }

  /** Looks at everything that is reached from a thread without a byte. */
  #expand({ node, frame }: Thread): void {
    const { silent, calls, repeats, roles, returns } = this.view(node);
    for (const target of silent) this.#visit(target, frame);
    for (const { start, back, isLast } of calls) {
      if (isLast) this.#visit(start, frame);
      else if (this.#canFinish(back, frame)) this.#visit(start, frame.call(back));
    }
    for (const index of repeats) {
      const { body, exit, min, max, mostNeeded } = this.automaton.repeats[index]!;
      const first = mostNeeded === undefined ? 1 : 0;
      if (min === 0 && first === 1) this.#visit(exit, frame);
      if (this.#canFinish(exit, frame)) {
        const counts = { toMin: Math.max(min - first, 0), toMax: max - first };
        this.#visit(body, frame.round(index, counts));
      }
    }
    for (const role of roles) this.#play(role, frame);
    if (returns) this.#leave(frame);
  }

  /** A rule, a round or the whole grammar has come to its end. */
  #leave(frame: Frame): void {
    const { parent } = frame;
    if (parent === undefined) {
      this.#accepting = true;
    } else if (frame.back >= 0) {
      this.#visit(frame.back, parent);
    } else {
      const { body, exit, mostNeeded } = this.automaton.repeats[frame.repeat]!;
      if (frame.toMin === 0) this.#visit(exit, parent);
      if (frame.toMax > 0 && mostNeeded === undefined) this.#visit(body, frame.nextRound());
    }
  }

  /** Whether a place can get out of its stack once what is above it has. */
  #canFinish(node: number, frame: Frame): boolean {
    return this.#hasRoom(frame.depth + this.automaton.depthNeeds[node]!);
  }

  #hasRoom(depth: number): boolean {
    if (depth > this.maxDepth) return false;
    this.#reach = Math.max(this.#reach, depth);
    return true;
  }

  /** The next of the parts that may come, in a list on top of the stack. */
  #beginPart(frame: Frame): void {
    const { parts } = this.automaton.lists[frame.list]!;
    for (const part of frame.written!.open) this.#visit(parts[part]!.body, frame);
  }

  #endPart(frame: Frame, part: number): void {
    const { parts, separator, exit } = this.automaton.lists[frame.list]!;
    const written = frame.written!.with(part);
    if (written.isComplete) this.#visit(exit, frame.parent!);
    const next = frame.parent!.inList(frame.list, written);
    if (written.open.some((other) => this.#canFinish(parts[other]!.body, next))) {
      this.#visit(separator, next);
    }
  }

  #play(role: ListRole, frame: Frame): void {
    if (role.kind === "character begins") {
      if (frame.toMax > role.need) this.#visit(role.target, frame.nextRound());
    } else if (role.kind === "part ends") {
      this.#endPart(frame, role.part);
    } else if (role.kind === "part begins") {
      this.#beginPart(frame);
    } else if (this.#hasRoom(frame.depth + this.automaton.listNeeds[role.list]!)) {
      const list = this.automaton.lists[role.list]!;
      this.#beginPart(frame.inList(role.list, WrittenParts.none(list)));
    }
  }

  /** What goes out of a node and of all that it reaches silently. */
  view(node: number): NodeView {
    return this.#views.of(node);
  }
}

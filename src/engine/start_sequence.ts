/**
 * From a sequence to one that runs: what it needs beside its prompt is awaited here.
 *
 * @module
 */
import type { Constraint } from "../grammar/grammar.ts";
import type { GrammarService } from "./grammar/grammar_service.ts";
import type { LiveSequences } from "./live_sequences.ts";
import type { PrefixTransfers } from "./prefix/prefix_transfers.ts";
import type { Scheduler } from "./schedule/scheduler.ts";
import type { Sequence } from "./schedule/sequence.ts";
import type { StepLoop } from "./step/step_loop.ts";
import type { PageRoutes, PageTaker } from "./transfer/page_routes.ts";
import type { TravellingPages } from "./transfer/travelling_pages.ts";

export interface StarterParts {
  readonly grammars: GrammarService;
  readonly prefixes: PrefixTransfers | undefined;
  readonly travelling: TravellingPages | undefined;
  readonly scheduler: Scheduler;
  readonly live: LiveSequences;
  readonly loop: StepLoop;
  /** Why no request can be served any more. */
  readonly failure: () => Error | undefined;
}

/** What of its request a sequence begins with. */
interface Beginning {
  readonly constraint: Constraint | undefined;
  readonly routes: PageRoutes;
  readonly isOver: () => boolean;
}

export class SequenceStarter {
  readonly #parts: StarterParts;

  constructor(parts: StarterParts) {
    this.#parts = parts;
  }

  /** Begins the sequence, once what it needs beside its prompt is there: then the promise resolves. */
  begin(sequence: Sequence, { constraint, routes, isOver }: Beginning): Promise<void> | undefined {
    const { grammars, prefixes, travelling, live } = this.#parts;
    this.#requireEngine();
    live.add(sequence);
    const { pageTaker } = routes;
    const grammar =
      constraint &&
      (pageTaker === undefined
        ? sequence.grammar!.open(grammars, constraint)
        : requireGrammar(grammars, constraint, pageTaker));
    if (routes.pageSource !== undefined) return this.#bring(sequence, grammar, { routes, isOver });
    const preparations = [
      grammar,
      prefixes?.restore(sequence, () => !isOver()),
      travelling?.depart(sequence, { routes, isOver }),
    ].filter((one) => one !== undefined);
    if (preparations.length > 0) {
      return Promise.all(preparations).then(() => {
        if (!isOver()) this.#start(sequence);
      });
    }
    this.#start(sequence);
    return undefined;
  }

  /** Has the sequence run once its pages are there. */
  async #bring(
    sequence: Sequence,
    grammar: Promise<void> | undefined,
    { routes, isOver }: Omit<Beginning, "constraint">,
  ): Promise<void> {
    const { travelling, loop } = this.#parts;
    await grammar;
    this.#requireEngine();
    if (isOver()) return;
    const runs = await travelling?.arrive(sequence, routes);
    this.#requireEngine();
    if (!runs) return;
    sequence.announce();
    loop.start();
  }

  #start(sequence: Sequence): void {
    const { scheduler, loop } = this.#parts;
    this.#requireEngine();
    scheduler.add(sequence);
    sequence.announce();
    loop.start();
  }

  #requireEngine(): void {
    const failure = this.#parts.failure();
    if (failure !== undefined) throw failure;
  }
}

/**
 * Refuses a wrong constraint where no answer is drawn, as it is refused where that is.
 *
 * @throws {GrammarError | CapacityError} as a rejection.
 */
async function requireGrammar(
  grammars: GrammarService,
  constraint: Constraint,
  { signal }: PageTaker,
): Promise<void> {
  const session = await grammars.open(constraint, signal);
  session.close();
}

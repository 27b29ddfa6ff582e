/**
 * Threads that all replicas of a model share: what one of them has compiled or loaded is there for all.
 *
 * @module
 */
import type { CreateGrammarService, GrammarService } from "../../engine/grammar/grammar_service.ts";
import type { CreateTextService, TextService } from "../../engine/text/text_service.ts";
import { workerGrammarService } from "../worker_grammar_service.ts";
import { workerTextService } from "../worker_text_service.ts";

/** Of one model: what makes the services is asked once. */
export interface SharedServices {
  readonly grammarService: CreateGrammarService;
  readonly textService: CreateTextService;
}

/** Each service is made for its first user, and closed with its last one. */
export function sharedServices(): SharedServices {
  const grammars = new Shared<GrammarService>();
  const texts = new Shared<Promise<TextService>>();
  return {
    grammarService: (model) => {
      const service = grammars.use(() => workerGrammarService(model));
      return {
        open: (constraint, signal, options) => service.open(constraint, signal, options),
        close: once(() => grammars.leave((last) => last.close())),
      };
    },
    textService: async (setting) => {
      const opening = texts.use(async () => workerTextService(setting));
      const leave = once(() => texts.leave(closeOpened));
      try {
        const service = await opening;
        const { templateVariables } = service;
        const run: TextService["run"] = (job, options) => service.run(job, options);
        return { templateVariables, run, close: leave };
      } catch (error) {
        leave();
        throw error;
      }
    },
  };
}

/** One that could not be opened is none to close: who opened it was told. */
function closeOpened(opening: Promise<TextService>): void {
  opening.then(
    (service) => service.close(),
    () => {},
  );
}

class Shared<Service> {
  #service: Service | undefined;
  #users = 0;

  use(create: () => Service): Service {
    this.#service ??= create();
    this.#users += 1;
    return this.#service;
  }

  leave(close: (service: Service) => void): void {
    this.#users -= 1;
    if (this.#users > 0 || this.#service === undefined) return;
    close(this.#service);
    this.#service = undefined;
  }
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) work();
    isDone = true;
  };
}

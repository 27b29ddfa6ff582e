/**
 * Texts read in the engine's own thread, at once: what they take holds everything else up.
 *
 * @module
 */
import { runTextJob, type TextJob, type TextResult, type TextTools } from "./text_jobs.ts";
import type { CreateTextService, TextService, TextWork } from "./text_service.ts";

export class LocalTextService implements TextService {
  readonly templateVariables: ReadonlySet<string>;
  readonly #tools: TextTools;

  constructor(tools: TextTools) {
    this.#tools = tools;
    this.templateVariables = tools.chat.variables;
  }

  run<Job extends TextJob>(job: Job): TextWork<TextResult<Job>> {
    return { result: runTextJob(job, this.#tools), leave: () => {} };
  }

  close(): void {}
}

/** @throws {CheckpointError} when the files of the tokenizer or the templates are malformed. */
export const localTextService: CreateTextService = ({ model }) => {
  const { tokenizer, longestToken } = model;
  tokenizer.prepare();
  return new LocalTextService({ tokenizer, chat: model.createChat(), longestToken });
};

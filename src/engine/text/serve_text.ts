/**
 * The far side of a `RemoteTextService`: reads texts in a thread of its own, one after another.
 *
 * @module
 */
import { memorySource } from "../../checkpoint/memory_source.ts";
import { loadText } from "../load/text_model.ts";
import { errorData } from "../remote/error_data.ts";
import { localTextService } from "./local_text_service.ts";
import { unpacked } from "./packed_job.ts";
import type { TextJob } from "./text_jobs.ts";
import type { TextAnswer, TextQuestion } from "./text_messages.ts";
import type { TextService } from "./text_service.ts";

/**
 * @param send Sends what the other side's `onAnswer` takes.
 * @returns Takes what the other side sends.
 */
export function serveText(
  send: (answer: TextAnswer, transfer: readonly ArrayBuffer[]) => void,
): (question: TextQuestion) => Promise<void> {
  let service: TextService | undefined;
  const answerTo = async (question: TextQuestion): Promise<TextAnswer> => {
    if (question.type === "run") return runJob(service!, question.job);
    if (question.type === "run packed") return runJob(service!, unpacked(question.json));
    service = await open(question);
    return { type: "loaded", templateVariables: [...service.templateVariables] };
  };
  return async (question) => {
    const answer = await answerTo(question).catch(
      (error: unknown): TextAnswer => ({ type: "failed", error: errorData(error) }),
    );
    send(answer, answer.type === "tokens" ? [answer.tokens.buffer] : []);
  };
}

async function open({
  files,
  options,
}: Extract<TextQuestion, { type: "load" }>): Promise<TextService> {
  const source = memorySource(files);
  return localTextService({ model: await loadText(source, options), source, options });
}

async function runJob(service: TextService, job: TextJob): Promise<TextAnswer> {
  const result = await service.run(job).result;
  if (typeof result === "string") return { type: "text", text: result };
  return { type: "tokens", tokens: Uint32Array.from(result) };
}

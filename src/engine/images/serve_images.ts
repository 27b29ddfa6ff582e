/**
 * The other end of a remote image service: what a worker's thread runs.
 *
 * @module
 */
import { WorkerError } from "../../errors.ts";
import { errorData } from "../remote/error_data.ts";
import type { ImageAnswer, ImageCall, ImageQuestion } from "./image_messages.ts";
import { type ImageTools, type OpenedPicture, openPicture } from "./opened_picture.ts";

/** @param transfer Memory of the answer that may leave the thread. */
type Send = (answer: ImageAnswer, transfer: readonly ArrayBuffer[]) => void;

/** @returns Takes what comes, one call after the other. */
export function serveImages(send: Send, tools: ImageTools): (call: ImageCall) => void {
  let opened: OpenedPicture | undefined;
  const answer = async (question: ImageQuestion): Promise<ImageAnswer> => {
    switch (question.type) {
      case "open":
        opened = await openPicture(question.image, question.alpha, tools);
        return { type: "opened", hash: opened.hash };
      case "decode":
        return { type: "decoded", pictures: await opened!.decode(question.recipe) };
      case "picture":
        return { type: "picture", picture: await opened!.picture(question.index) };
      default:
        return question satisfies never;
    }
  };
  return (call) => {
    if (call.type === "close") {
      opened = undefined;
      return;
    }
    answer(call).then(
      (done) => send(done, done.type === "picture" ? [done.picture.patches.buffer] : []),
      (error: unknown) => send({ type: "failed", error: errorData(toldError(error)) }, []),
    );
  };
}

/** Memory that cannot be had is this thread's failure. */
function toldError(cause: unknown): unknown {
  if (!(cause instanceof RangeError)) return cause;
  const problem = `there is no memory for it (${cause.message})`;
  return new WorkerError(`Cannot read the image: ${problem}`, { cause });
}

/**
 * `/start_expert_distribution_record`, `/stop_..` and `/dump_..`: how often steps choose each expert,
 * as a file of the server.
 *
 * @module
 */
import { UnsupportedError } from "../../errors.ts";
import type { ExpertRecordControl } from "../observe/expert_record_control.ts";
import type { ServerContext } from "../server_context.ts";

/** Forgets what was recorded before. */
export async function handleStartExpertRecord(
  { expertRecords }: ServerContext,
  request: Request,
): Promise<Response> {
  await requireControl(expertRecords, request).start();
  return new Response("Start recording the expert distribution.\n");
}

export async function handleStopExpertRecord(
  { expertRecords }: ServerContext,
  request: Request,
): Promise<Response> {
  await requireControl(expertRecords, request).stop();
  return new Response("Stop recording the expert distribution.\n");
}

/** Answers once the file is written. What is recorded then begins anew. */
export async function handleDumpExpertRecord(
  { expertRecords }: ServerContext,
  request: Request,
): Promise<Response> {
  const name = await requireControl(expertRecords, request).dump();
  return new Response(`Dump expert distribution record. It is in ${name}\n`);
}

function requireControl(
  control: ExpertRecordControl | undefined,
  { url }: Request,
): ExpertRecordControl {
  if (control !== undefined) return control;
  const reason = "the server records no experts; --expert-distribution-recorder-mode stat does";
  throw new UnsupportedError(new URL(url).pathname, reason);
}

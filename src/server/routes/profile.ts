/**
 * `/start_profile` and `/stop_profile`: where the time of steps goes, as a file of the server.
 *
 * @module
 */
import { UnsupportedError } from "../../errors.ts";
import { Fields, outOfRange } from "../../http/fields.ts";
import type { TraceOptions } from "../../profile.ts";
import type { ProfileControl, ProfileRequest } from "../observe/profile_control.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";

const ACTIVITIES = ["CPU", "GPU"] as const;

/** Profiles that end by themselves after `num_steps` are written without `/stop_profile`. */
export async function handleStartProfile(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const control = requireControl(context.profiles, request);
  const body = request.method === "GET" ? {} : await readBody(context, request, { whenEmpty: {} });
  await control.start(readProfileRequest(new Fields(body)));
  return new Response("Start profiling.\n");
}

/** Answers once the file is written. */
export async function handleStopProfile(
  { profiles }: ServerContext,
  request: Request,
): Promise<Response> {
  const name = await requireControl(profiles, request).stop();
  return new Response(`Stop profiling. The profile is in ${name}\n`);
}

function requireControl(profiles: ProfileControl | undefined, { url }: Request): ProfileControl {
  if (profiles !== undefined) return profiles;
  const reason = "the server has no folder for profiles; its option --profile-dir names one";
  throw new UnsupportedError(new URL(url).pathname, reason);
}

function readProfileRequest(fields: Fields): ProfileRequest {
  const request = {
    folder: fields.string("output_dir"),
    steps: fields.integer("num_steps", { min: 1 }),
    firstStep: fields.integer("start_step", { min: 0 }),
    activities: readActivities(fields),
    shapes: fields.boolean("record_shapes") ?? true,
  };
  // A file has all of a step, and kernels have no stacks.
  fields.takeIdle({ profile_by_stage: [false], with_stack: [false] });
  fields.end();
  return request;
}

function readActivities(fields: Fields): TraceOptions["activities"] & object {
  const given = fields.list("activities");
  if (given === undefined) return ACTIVITIES;
  const path = fields.path("activities");
  if (given.length === 0) throw outOfRange(path, "a list of CPU and GPU", given);
  return given.map((one, i) => {
    const known = ACTIVITIES.find((name) => name === one);
    if (known === undefined) throw outOfRange(`${path}[${i}]`, "CPU or GPU", one);
    return known;
  });
}

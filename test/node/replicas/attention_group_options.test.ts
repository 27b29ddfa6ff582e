/** What attention groups do not go with is refused before anything is started, and named with them. */
import { describe, expect, test } from "vitest";
import { optionsOfGroup } from "../../../src/engine/groups/attention_groups.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import {
  idleGroupsOptions,
  requireUsableGroups,
} from "../../../src/node/ranks/attention_group_options.ts";
import { engineOptionsOf, factsOf } from "../../../src/node/ranks/rank_place.ts";
import { requireUsableReplicas } from "../../../src/node/replicas/replica_options.ts";
import { startCommand } from "../../support/package/run_command.ts";

const launch = (args: readonly string[]) => parseOptions(LAUNCH_OPTIONS, args).values;
const GROUPS = ["--tp", "4", "--dp", "2", "--enable-dp-attention"];

describe("attention groups are refused", () => {
  test.each([
    [
      ["--tp", "3"],
      "together with --tp-size 3 and --dp-size 2: 3 ranks cannot be shared out evenly",
    ],
    [
      ["--chunked-prefill-size", "40", "--page-size", "16"],
      "--page-size 16: 20 tokens of each of 2 groups are not divisible by the pages",
    ],
    [
      ["--expert-distribution-recorder-mode", "per_token"],
      "together with --expert-distribution-recorder-mode per_token: groups record stat alone",
    ],
    [["--max-running-requests", "1"], "option --max-running-requests: 1 leave none to one of 2"],
  ])("with %j", async (args, message) => {
    const command = startCommand(["launch_server", ...GROUPS, ...args]);
    expect(await command.code).toBe(2);
    expect(command.stderr()).toContain(message);
    expect(command.started).toEqual([]);
  });
});

test("groups may be cut between machines, and so may replicas where each machine has as many", () => {
  const machines = ["--dp", "2", "--nnodes", "2"];
  const groups = launch([...GROUPS, ...machines]);
  expect(() => requireUsableGroups(groups)).not.toThrow();
  const place = { isOuter: true, ofGroups: true };
  expect(() => requireUsableReplicas(groups, place)).not.toThrow();
  expect(() => requireUsableReplicas(launch(machines))).not.toThrow();
  const uneven = launch(["--dp", "3", "--nnodes", "2"]);
  expect(() => requireUsableReplicas(uneven)).toThrow("3 together with --nnodes 2: 2 machines");
});

test("machines compare what groups there are, where there are some", () => {
  const facts = (args: readonly string[]) => factsOf(engineOptionsOf(launch(args)));
  expect(facts([...GROUPS, "--enable-dp-lm-head"])).toMatchObject({
    ...{ "--dp-size": 2, "--enable-dp-attention": true, "--enable-dp-lm-head": true },
  });
  expect(facts(["--tp", "4", "--dp", "2"])).not.toHaveProperty("--dp-size");
});

test("a group's share keeps the seed, which replicas are given one by one", () => {
  const options = { attentionGroups: 2, randomSeed: 7, maxRunningRequests: 9 };
  expect(optionsOfGroup(options, 1)).toMatchObject({ randomSeed: 7, maxRunningRequests: 4 });
});

test("one group changes nothing, and lines say so", () => {
  const line =
    "Option --enable-dp-attention changes nothing: --dp-size is 1, so there is one group";
  const both = ["--enable-dp-attention", "--enable-dp-lm-head"];
  const head = line.replace("attention", "lm-head");
  expect(idleGroupsOptions(launch(both))).toEqual([line, head]);
  expect(idleGroupsOptions(launch(["--enable-dp-attention"]))).toEqual([line]);
  expect(idleGroupsOptions(launch(GROUPS))).toEqual([]);
  expect(idleGroupsOptions(launch([]))).toEqual([]);
});

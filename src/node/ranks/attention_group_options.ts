/**
 * Options of servers whose ranks attend in groups, each to requests of its own.
 *
 * @module
 */
import type { ExpertRecorderMode } from "../../expert_record.ts";
import type { OptionTable, OptionValues } from "../options/option_parser.ts";
import { OptionError } from "../options/option_parser.ts";
import { DEVICE_OPTIONS } from "./device_options.ts";
import { EXPERT_OPTIONS } from "./expert_options.ts";
import { GROUP_OPTIONS } from "./group_options.ts";

const { group } = GROUP_OPTIONS.nnodes;

export const ATTENTION_GROUP_OPTIONS = {
  enableDpAttention: {
    flags: ["--enable-dp-attention"],
    kind: "flag",
    default: false,
    help:
      "in place of --dp-size replicas, the ranks of --tp-size are so many groups that attend to " +
      "different requests, each with a cache and batches of its own, and share experts and dense layers",
    group,
  },
  enableDpLmHead: {
    flags: ["--enable-dp-lm-head"],
    kind: "flag",
    default: false,
    help:
      "with --enable-dp-attention, have the ranks of each group share an output head, which exchanges " +
      "less and takes more memory than one that all ranks share",
    group,
  },
} as const satisfies OptionTable;

type GroupedOptions = OptionValues<typeof ATTENTION_GROUP_OPTIONS> & {
  readonly tpSize: number;
  readonly dpSize: number;
  readonly chunkedPrefillSize: number;
  readonly pageSize: number;
  readonly expertRecorderMode?: ExpertRecorderMode | undefined;
};

const [DP_ATTENTION] = ATTENTION_GROUP_OPTIONS.enableDpAttention.flags;
const [DP_LM_HEAD] = ATTENTION_GROUP_OPTIONS.enableDpLmHead.flags;

/** Groups that ranks attend in; undefined where all ranks of a replica attend to the same requests. */
export function attentionGroups({
  enableDpAttention,
  dpSize,
}: Pick<GroupedOptions, "enableDpAttention" | "dpSize">): number | undefined {
  return enableDpAttention && dpSize > 1 ? dpSize : undefined;
}

/** As `attentionGroups`, of what an engine is started with. */
export function attentionGroupsOf({
  enableDpAttention = false,
  dpSize = 1,
}: Partial<Pick<GroupedOptions, "enableDpAttention" | "dpSize">>): number | undefined {
  return attentionGroups({ enableDpAttention, dpSize });
}

/** @throws {OptionError} naming what groups do not go with. */
export function requireUsableGroups(options: GroupedOptions): void {
  const { enableDpAttention, enableDpLmHead, tpSize } = options;
  if (enableDpLmHead && !enableDpAttention) {
    throw new OptionError(`Cannot use option ${DP_LM_HEAD}: ${DP_ATTENTION} is not given`);
  }
  const groups = attentionGroups(options);
  if (groups === undefined) return;
  const refuse = (what: string, problem: string): never => {
    throw new OptionError(`Cannot use option ${DP_ATTENTION} together with ${what}: ${problem}`);
  };
  const sizes = `${DEVICE_OPTIONS.tpSize.flags[0]} ${tpSize} and --dp-size ${groups}`;
  if (tpSize % groups !== 0) {
    refuse(sizes, `${tpSize} ranks cannot be shared out evenly among ${groups} groups`);
  }
  const { chunkedPrefillSize: chunk, pageSize } = options;
  if (chunk > 0 && Math.floor(chunk / groups) % pageSize !== 0) {
    const each = `${Math.floor(chunk / groups)} tokens of each of ${groups} groups`;
    refuse(
      `--chunked-prefill-size ${chunk} and --page-size ${pageSize}`,
      `${each} are not divisible by the pages`,
    );
  }
  const { expertRecorderMode: mode = "stat" } = options;
  if (mode !== "stat") {
    const [flag] = EXPERT_OPTIONS.expertRecorderMode.flags;
    refuse(`${flag} ${mode}`, "groups record stat alone");
  }
}

/** What a start says of groups: what each of them has of its own, and what all ranks share. */
export function describeGroups({
  dpSize,
  tpSize,
  enableDpLmHead = false,
  moeDenseTpSize,
}: Pick<GroupedOptions, "dpSize" | "tpSize"> & {
  readonly enableDpLmHead?: boolean;
  readonly moeDenseTpSize?: number | undefined;
}): string {
  const isWhole = moeDenseTpSize === 1;
  const own = ["caches", "weights of attention", ...(enableDpLmHead ? ["output heads"] : [])];
  const shared = [
    "experts",
    ...(isWhole ? [] : ["dense layers"]),
    ...(enableDpLmHead ? [] : ["the output head"]),
  ];
  return (
    `Attention groups: ${dpSize}, each of ${tpSize / dpSize} of ${tpSize} ranks, attend to different ` +
    `requests with ${listed(own)} of their own and share ${listed(shared)}` +
    (isWhole ? ", while each rank has all dense layers" : "")
  );
}

const listed = (names: readonly string[]) => new Intl.ListFormat("en-GB").format(names);

/** Lines for options that are given and change nothing, as there is one group. */
export function idleGroupsOptions(
  options: Pick<GroupedOptions, "enableDpAttention" | "enableDpLmHead" | "dpSize">,
): readonly string[] {
  if (!options.enableDpAttention || options.dpSize > 1) return [];
  const given = options.enableDpLmHead ? [DP_ATTENTION, DP_LM_HEAD] : [DP_ATTENTION];
  return given.map(
    (flag) => `Option ${flag} changes nothing: --dp-size is 1, so there is one group`,
  );
}

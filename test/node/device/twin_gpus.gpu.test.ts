/**
 * GPUs of one name are told apart by their numbers: shown by drivers in front of lavapipe, as few
 * machines have several, to processes of their own.
 */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { lavapipeIsInstalled } from "../../../src/node/device/device.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";

const GPUS = 3;
const root = fileURLToPath(new URL("../../..", import.meta.url));
const support = join(root, "test/support/devices");
const NEEDED = [
  ["/usr/share/vulkan/implicit_layer.d/VkLayer_MESA_device_select.json", "mesa-vulkan-drivers"],
  ["/usr/include/vulkan/vulkan.h", "libvulkan-dev"],
  ["/usr/bin/cc", "gcc"],
] as const;

function lackOfTwins(): string | undefined {
  if (!lavapipeIsInstalled()) return "lavapipe is not installed";
  const absent = NEEDED.find(([file]) => !existsSync(file));
  return absent && `${absent[0]} of ${absent[1]} is not there`;
}

const lack = lackOfTwins();
if (lack !== undefined) console.log(`GPUs of one name are not tried: ${lack}`);
const isLeftOut = lack !== undefined || smallestCaseOnly;

// Where packages are found from.
const cache = join(root, "node_modules/.cache");
mkdirSync(cache, { recursive: true });
const folder = mkdtempSync(join(cache, "wisp-twins-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A driver of one GPU. @returns Its manifest. */
function shownGpu(number: number): string {
  const library = join(folder, `gpu_${number}.so`);
  const flags = [`-DNUMBER=${number}`, "-O2", "-shared", "-fPIC", "-fvisibility=hidden"];
  const source = join(support, "shown_gpu.c");
  execFileSync("cc", [...flags, "-o", library, source, "-ldl", "-lpthread"]);
  const ICD = { library_path: library, api_version: "1.4.305" };
  writeFileSync(`${library}.json`, JSON.stringify({ file_format_version: "1.0.0", ICD }));
  return `${library}.json`;
}

let manifests = "";
beforeAll(async () => {
  if (isLeftOut) return;
  const input = { opener: join(support, "open_numbered.ts"), rank: join(support, "open_rank.ts") };
  const output = { entryFileNames: "[name].mjs" };
  await build({
    ...{ root, configFile: false, logLevel: "error" },
    build: { ssr: true, outDir: folder, minify: false, rolldownOptions: { input, output } },
  });
  // The build empties its folder.
  manifests = Array.from({ length: GPUS }, (_, number) => shownGpu(number)).join(":");
});

/** What a program prints, and the GPUs that devices were made on. */
function run(
  name: "opener" | "rank",
  args: readonly (string | number)[],
  env: Readonly<Record<string, string>> = {},
) {
  const made = join(folder, "made");
  writeFileSync(made, "");
  const printed = execFileSync(
    process.execPath,
    [join(folder, `${name}.mjs`), ...args.map(String)],
    {
      env: {
        ...process.env,
        ...{ VK_DRIVER_FILES: manifests, VK_ICD_FILENAMES: manifests, WISP_SHOWN_GPUS: made },
        ...env,
      },
      encoding: "utf8",
      // What drivers say while they are searched.
      stdio: "pipe",
    },
  );
  const gpus = readFileSync(made, "utf8").split("\n").filter(Boolean).map(Number);
  return { said: JSON.parse(printed.trim().split("\n").at(-1)!), gpus };
}

function open(numbers: readonly number[], env: Readonly<Record<string, string>> = {}) {
  const { said, gpus } = run("opener", numbers, env);
  const { names, failures, prime } = said;
  return { names, failures, prime, gpus };
}

test.skipIf(isLeftOut)("each of several GPUs of one name is opened by its number", () => {
  const numbers = [2, 0, 1, 1, 0, 2];
  const { names, gpus, failures, prime } = open(numbers);
  expect(names).toEqual(Array(GPUS).fill(names[0]));
  expect([gpus, failures, prime]).toEqual([numbers, [], "none"]);
});

test.skipIf(isLeftOut)("a driver for the CPU among them moves no number", () => {
  const folder = "/usr/share/vulkan/icd.d";
  const lavapipe = join(folder, readdirSync(folder).find((name) => name.startsWith("lvp_icd"))!);
  const [first, ...others] = manifests.split(":");
  const mixed = [first, lavapipe, ...others].join(":");
  const { names, gpus } = open([2, 1], { VK_DRIVER_FILES: mixed, VK_ICD_FILENAMES: mixed });
  expect([names.length, gpus]).toEqual([GPUS, [2, 1]]);
});

test.skipIf(isLeftOut)("without Mesa's layer those behind the first are refused", () => {
  const { gpus, failures } = open([1, 0], { NODEVICE_SELECT: "1" });
  expect(gpus).toEqual([0]);
  expect(failures).toEqual([expect.stringContaining("mesa-vulkan-drivers")]);
});

test.skipIf(isLeftOut)("ranks that are processes have a GPU each, from --base-gpu-id on", () => {
  const ranks = [0, 1].map((rank) => run("rank", [EMBEDDED_MODEL, 1, 2, rank]));
  // One device, which the engine gets: what chooses the adapters makes none.
  expect(ranks.map(({ gpus }) => gpus)).toEqual([[1], [2]]);
  for (const { said } of ranks) {
    expect(said.sentences).toEqual([
      expect.stringMatching(/^Adapters of this machine's ranks: 1 \(.+\), 2 \(.+\)$/),
    ]);
    expect(said.places).toEqual([0, 1]);
  }
});

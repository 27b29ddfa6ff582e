import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { packageBuild } from "./packaging/environments.ts";
import { builtFiles } from "./test/shipped/support/built_files.ts";

const root = fileURLToPath(new URL(".", import.meta.url));

const fullTest = process.env.WISP_TEST_FULL === "1";
const timeout = fullTest ? 600_000 : 120_000;

/** What a run of tests shares. One process keeps its device over many test files. */
const shared = {
  pool: "forks" as const,
  maxWorkers: 2,
  isolate: false,
  testTimeout: timeout,
  // A model is loaded in a hook, which takes a while on SwiftShader.
  hookTimeout: timeout,
  setupFiles: ["test/support/setup.ts"],
};

const allTests = ["test/**/*.test.ts"];
const gpuTests = ["test/**/*.gpu.test.ts"];

/** What needs the installed package. */
const shippedTests = "test/shipped/**/*.test.ts";
/** Tests over sockets and of commands, which import nothing of a server but what the package exports. */
const ofBuiltFiles = [
  "test/api/4_4_disaggregated.test.ts",
  "test/api/http_cases.test.ts",
  "test/node/{access_options,bench_serving,command,http,kernel_profile,malformed_http,serving}.test.ts",
  "test/server/{openai_client,openai_tools,slow_clients,socket,socket_fuzz}.test.ts",
];

const UNOPTIMIZED = "lavapipe_unoptimized";
/** Tests of many shapes that each compile kernels of their own and launch them a few times. */
const ofManyShapes = ["test/kernels/**/*.gpu.test.ts", "test/models/random_*.gpu.test.ts"];

/**
 * Without durations of an earlier run, files go by their size, which says nothing of the checks:
 * three lines that find a hundred kernels. They begin, so that no worker ends with them alone.
 */
class ChecksFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) =>
      (project.name === UNOPTIMIZED ? 0 : 2) + (moduleId.includes("/kernels/checks/") ? 0 : 1);
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

/** True where lavapipe gives an adapter, which Mesa 22 does not and Mesa 25 does. */
function lavapipeWorks(): boolean {
  const folder = "/usr/share/vulkan/icd.d";
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const manifest = names.find((name) => /^lvp_icd.*\.json$/.test(name));
  if (manifest === undefined) return false;
  const program = `
    const { create } = await import("webgpu");
    globalThis.gpu = create([]);
    process.exit((await gpu.requestAdapter()) === null ? 1 : 0);`;
  const VK_ICD_FILENAMES = join(folder, manifest);
  const env = { ...process.env, VK_ICD_FILENAMES, VK_DRIVER_FILES: VK_ICD_FILENAMES };
  const args = ["--input-type=module", "--eval", program];
  return spawnSync(process.execPath, args, { cwd: root, env, stdio: "ignore" }).status === 0;
}

/**
 * All tests with the code that users run; where the command line asks for it, as `npm test` does,
 * those of many shapes in a project without LLVM's optimizations, which take more time there than
 * they save. The long campaign tests the optimized code everywhere.
 */
function lavapipeProjects() {
  // A plain build and the quick runs have no use for the answer.
  if (process.env.VITEST === undefined || !process.argv.includes("lavapipe")) return [];
  if (!lavapipeWorks()) {
    console.log(
      "Project lavapipe is left out: it needs Mesa 25 or newer, on Debian 12" +
        ' "apt-get install -t bookworm-backports mesa-vulkan-drivers"',
    );
    return [];
  }
  const env = { WISP_ADAPTER: "lavapipe" };
  const sequence = { groupOrder: 1 };
  const two = process.argv.includes(UNOPTIMIZED) && !fullTest;
  const exclude = two ? ofManyShapes : [];
  const all = { ...shared, name: "lavapipe", include: gpuTests, exclude, env, sequence };
  if (!two) return [{ extends: true as const, test: all }];
  // Mesa's own variable; its cache of shaders tells the two kinds of code apart.
  const unoptimized = { ...env, GALLIVM_PERF: "nopt" };
  const some = { ...all, name: UNOPTIMIZED, include: ofManyShapes, exclude: [], env: unoptimized };
  return [all, some].map((test) => ({ extends: true as const, test }));
}

const smallest = fullTest ? "" : "1";
const lavapipe = lavapipeProjects();
/** What these test is no matter of the driver: on the slow one they are left to the long campaign. */
const ofAnyDriver = [
  ...[
    ...["decode_buckets", "device_loss", "engine", "flush_cache", "grammar", "grammar_worker"],
    ...["input_embeds", "overlap", "pipelines", "prefix_store", "remote_engine"],
    ...["retraction_memory", "structured_output"],
  ].map((name) => `test/engine/${name}.gpu.test.ts`),
  ...[
    ...["compile_command", "kernel_tuning", "launch_server", "polling", "prefix_cache"],
    ...["start_engine", "tuning_at_start"],
  ].map((name) => `test/node/${name}.gpu.test.ts`),
  ...["test/server/*.gpu.test.ts", "test/examples.gpu.test.ts"],
  // Kernels in the forms of all rows are checked on both; a model in them compiles for long. Launches
  // are as many on every driver.
  ...["gpu_rows", "launches"].map((name) => `test/models/${name}.gpu.test.ts`),
];

export default defineConfig({
  ...packageBuild(),
  // The examples import this package by its name; tsconfig.json says where that is.
  resolve: { tsconfigPaths: true },
  test: {
    sequence: { sequencer: ChecksFirst },
    projects: [
      // The one for work in progress: everything, on the best adapter of the machine.
      {
        extends: true,
        test: { ...shared, name: "fast", include: allTests, exclude: [shippedTests] },
      },
      {
        extends: true,
        test: {
          ...shared,
          name: "unit",
          include: allTests,
          exclude: [...gpuTests, shippedTests, ...ofBuiltFiles],
        },
      },
      {
        extends: true,
        plugins: [builtFiles(root)],
        test: {
          ...shared,
          name: "shipped",
          include: [shippedTests, ...ofBuiltFiles],
          globalSetup: "test/shipped/support/tarball.ts",
        },
      },
      ...lavapipe,
      {
        extends: true,
        test: {
          ...shared,
          name: "swiftshader",
          include: gpuTests,
          exclude: smallest === "1" && lavapipe.length > 0 ? ofAnyDriver : [],
          env: { WISP_ADAPTER: "swiftshader", WISP_TEST_SMALLEST: smallest },
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        // One file after another, as two at once would take each other's time, and each in a process
        // of its own, as the first device of a process decides how the driver works.
        test: {
          ...shared,
          name: "bench",
          include: ["bench/**/*.bench.ts"],
          maxWorkers: 1,
          isolate: true,
        },
      },
    ],
  },
});

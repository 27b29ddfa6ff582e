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
  globalSetup: ["test/support/package/shared_builds.ts"],
};

const allTests = ["test/**/*.test.ts"];
const gpuTests = ["test/**/*.gpu.test.ts"];

/** What needs the installed package. */
const shippedTests = "test/shipped/**/*.test.ts";
/**
 * Networks of this machine that come and go: UCX of other tests would choose them as it starts, and
 * lose them. So nothing runs beside.
 */
const podTests = "test/shipped/pods/reference_pods.test.ts";
/** Tests over sockets and of commands, which import nothing of a server but what the package exports. */
const ofBuiltFiles = [
  "test/api/service/disaggregated_options.test.ts",
  "test/api/fields/http_cases.test.ts",
  "test/node/**/{access_options,bench_serving,command,http,kernel_profile,malformed_http,serving}.test.ts",
  "test/server/**/{anthropic_client,anthropic_refusals,ollama_client,openai_client,openai_responses,openai_responses_refusals,openai_tools}.test.ts",
  "test/server/**/{slow_clients,socket,socket_fuzz}.test.ts",
];

/** Tests of browsers, bundlers, processes and large models, which `npm run test:drivers` has. */
const longTests = [
  "test/browser/**/{decode_images,decode_node,demo,demo_decode_node,demo_errors,demo_screenshots,demo_storage,grammar_worker,image_worker,local_endpoint,package,storage}.test.ts",
  "test/browser/{image_answers,worker_engine}.test.ts",
  "test/start.test.ts",
  "test/browser/device/{device_page,firefox,firefox_readback,kernels}.test.ts",
  "test/{load_memory,runtimes}.test.ts",
  // Ranks that are killed and frozen in every state, and those of several networks.
  "test/node/mpi/{failures,networks}.test.ts",
  // Some thirty groups of threads.
  "test/node/threads/group.test.ts",
  // A class of kernels in every form, for GPUs alone.
  "test/kernels/linear/matrix_compile.test.ts",
  // Bundles of each part of the package; the suites of JSON Schema.
  "test/package_sizes.test.ts",
  "test/grammar/schema/schema_suite.test.ts",
  // Compilers of GPUs that are not there.
  "test/gpu_code/budgets.test.ts",
];

/** Tests of many shapes that each compile kernels of their own and launch them a few times. */
const ofManyShapes = ["test/kernels/**/*.gpu.test.ts", "test/models/random/*.gpu.test.ts"];
/** Kernels beside their references: each case in one tuning in `npm test`, else in every one. */
const kernelChecks = "test/kernels/checks/*.gpu.test.ts";

/** Of them those that cost much and tell of few changes, which `npm run test:drivers` has. */
const longOfManyShapes = [
  // A kernel to compile for each fault, a model for each case.
  "test/kernels/planted_faults/*.gpu.test.ts",
  "test/models/random/*.gpu.test.ts",
  // Forms of kernels that tuning finds and that GPUs take.
  "test/kernels/{tune,tune_faults}.gpu.test.ts",
  "test/kernels/attention/{attention_tunings,gqa_forms,gqa_write_decode,tree_paths}.gpu.test.ts",
  "test/kernels/linear/matrix_self_test.gpu.test.ts",
  // Chi-square of a hundred thousand draws.
  "test/kernels/{sampling,verify_statistics}.gpu.test.ts",
];
/** The same of the other tests on a GPU. */
const longGpuTests = [
  // Many models.
  "test/models/{gpu_rows,oracle,draft_golden,draft_models,draft_trees,eagle_heads}.gpu.test.ts",
  // The golden data of all checkpoints, and their rows beside others: the embedded one's stay, and
  // answers about images.
  "test/models/{golden,invariance,gqa_invariance,vision_golden}.gpu.test.ts",
  // What the matrix of exactness asks in short, and most of its variants with drafts.
  "test/engine/drafts/exactness.gpu.test.ts",
  "test/engine/step/{accept_thresholds,module_drafts,ngram_drafts}.gpu.test.ts",
  "test/engine/drafts/adaptive_engine.gpu.test.ts",
  "test/engine/draft_model.gpu.test.ts",
  "test/engine/step/tree_drafts.gpu.test.ts",
  "test/engine/load/invariance.gpu.test.ts",
  "test/engine/prefix/prefix_store.gpu.test.ts",
  "test/parallel/ranks.gpu.test.ts",
  "test/server/routes/any_weights.gpu.test.ts",
  // Numeric classes that are asked for by name, and forms that GPUs take.
  "test/models/classes/*.gpu.test.ts",
  "test/engine/**/{pipelines,staged_forms}.gpu.test.ts",
  "test/node/device/kernel_tuning.gpu.test.ts",
  // Several engines for each kind of pair; the matrix of exactness has theirs in short.
  "test/router/{nodes,pairs}.gpu.test.ts",
  "test/engine/transfer/travelling_awaits.gpu.test.ts",
  // Devices of the least limits, what ranks cannot share, kernels of a whole command, several engines.
  "test/engine/load/{compile_kernels,default_limits,loads_at_once}.gpu.test.ts",
  "test/parallel/{attention_groups,group_end,groups,led_awaits,led_groups,over_mpi,rank_devices,rank_drafts,rank_pairs,unshared}.gpu.test.ts",
  "test/parallel/replicas/replica_loss.gpu.test.ts",
  "test/node/threads/over_threads.gpu.test.ts",
  "test/server/wire/embedded_tools.gpu.test.ts",
  "test/examples.gpu.test.ts",
  // Rates of a device; weights in every order; chi-square of draws.
  "test/browser/device/device_measure.gpu.test.ts",
  "test/layers/repacking_upload.gpu.test.ts",
  "test/engine/sample/sampling_statistics.gpu.test.ts",
  "test/engine/step/tree_statistics.gpu.test.ts",
  // An engine whose device is lost compiles everything again; the server's own test stays.
  "test/engine/load/device_loss.gpu.test.ts",
  "test/engine/images/{hostile_images,image_loss,image_models,image_prefixes}.gpu.test.ts",
  // A load, or a request, for each wait that fails.
  "test/engine/load_awaits.gpu.test.ts",
  "test/engine/recovery_awaits.gpu.test.ts",
  "test/server/every_await.gpu.test.ts",
  "test/engine/schedule/suspects.gpu.test.ts",
];

/** What begins, so that no worker ends with one of them alone: by what a path contains. */
const FIRST = [
  ...["/kernels/checks/", "/kernels/planted_faults/", "/firefox.test", "/demo.test"],
  ...["/random_checkpoints.", "/ranks.", "/matrix_class.", "/golden.", "/commands.", "/start.test"],
];

/**
 * Without durations of an earlier run, files go by their size, which says nothing of the checks:
 * three lines that find a hundred kernels.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) =>
      (project.name.endsWith("_unoptimized") ? 0 : 2) +
      (FIRST.some((part) => moduleId.includes(part)) ? 0 : 1);
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

/** Whether the command line names a project of a driver. */
const asksForDriver = process.argv.some((word) =>
  /^(core|long|lavapipe|swiftshader|wide_subgroups)(_unoptimized)?$/.test(word),
);

/** Undefined where no project asks: a plain build and the quick runs have no use for the answer. */
const hasLavapipe = process.env.VITEST !== undefined && asksForDriver ? lavapipeWorks() : undefined;
if (hasLavapipe === false) {
  console.log(
    "Tests on lavapipe are left out: they need Mesa 25 or newer, on Debian 12" +
      ' "apt-get install -t bookworm-backports mesa-vulkan-drivers"',
  );
}

/** What these test is no matter of the driver: on the slow one they are left to the long campaign. */
const ofAnyDriver = [
  ...[
    ...["awaits", "chunked_prefix", "decode_buckets", "default_limits", "device_loss", "engine"],
    ...["equal_prompts", "faults", "flush_cache", "grammar", "grammar_worker"],
    ...["image_exactness", "image_golden", "image_loss", "image_models", "image_prefixes"],
    ...["hostile_images", "image_requests", "input_embeds"],
    ...["load_awaits", "loads_at_once", "overlap", "page_handover", "pipelines", "prefix_loss"],
    ...["prefix_store", "profile", "progress", "recovery_awaits", "reference_settings"],
    ...["remote_engine", "retraction_memory", "sampler_memory", "start_sizes"],
    ...["structured_output", "suspects", "text_worker"],
    // Where drafts come from: kernels and models that draft are tested on both, and so is exactness.
    ...["accept_thresholds", "adaptive_engine", "draft_model", "module_drafts", "ngram_drafts"],
    ...["exported_layer", "rank_runner", "tree_drafts", "tree_statistics"],
  ].map((name) => `test/engine/**/${name}.gpu.test.ts`),
  // Devices and kernels that are tuned are tested on both.
  ...["compile_command", "kernel_tuning", "launch_server", "polling", "prefix_cache"].map(
    (name) => `test/node/**/${name}.gpu.test.ts`,
  ),
  ...["bench_serving", "over_threads", "start_engine", "tuning_at_start"].map(
    (name) => `test/node/**/${name}.gpu.test.ts`,
  ),
  ...["test/server/**/*.gpu.test.ts", "test/examples.gpu.test.ts"],
  "test/kernels/print/*.gpu.test.ts",
  // What no device sees: files that are wrong.
  "test/models/config/*.gpu.test.ts",
  // Ranks exchange on the host, and are tested on both; a matrix that is emulated is the same on all.
  "test/parallel/{group_end,led_awaits,led_ranks,rank_devices,rank_drafts,rank_pairs}.gpu.test.ts",
  // Kernels in the forms of all rows are checked on both; a model in them compiles for long. Launches
  // are as many on every driver.
  ...["classes/matrix_class", "draft_tree_launches", "gpu_rows", "launches"].map(
    (name) => `test/models/${name}.gpu.test.ts`,
  ),
  "test/models/recorded_launches.gpu.test.ts",
];

interface Files {
  readonly include: string[];
  readonly exclude?: string[];
}

function onLavapipe(name: string, files: Files, env: Readonly<Record<string, string>> = {}) {
  const sequence = { groupOrder: 1 };
  return { ...shared, ...files, name, env: { WISP_ADAPTER: "lavapipe", ...env }, sequence };
}

/**
 * Those named `unoptimized` are without LLVM's optimizations, which take tests of many shapes more
 * time than they save. The long campaign tests the code that users run everywhere.
 */
function driverProjects() {
  if (hasLavapipe === undefined) return [];
  const env = { WISP_ADAPTER: "swiftshader", WISP_TEST_SMALLEST: fullTest ? "" : "1" };
  const onSwiftShader = { ...shared, env, sequence: { groupOrder: 2 } };
  const long = [...longOfManyShapes, ...longGpuTests];
  // Each test once, on the one driver that there is.
  if (!hasLavapipe) {
    return [
      { ...onSwiftShader, name: "core", include: gpuTests, exclude: long },
      { ...onSwiftShader, name: "swiftshader", include: fullTest ? gpuTests : long },
    ];
  }
  // Mesa's own variable; its cache of shaders tells the two kinds of code apart.
  const unoptimized = { GALLIVM_PERF: "nopt" };
  const firstTuning = { WISP_TEST_FIRST_TUNING: "1" };
  return [
    onLavapipe("core", { include: gpuTests, exclude: [...ofManyShapes, ...longGpuTests] }),
    onLavapipe(
      "core_unoptimized",
      { include: ofManyShapes, exclude: longOfManyShapes },
      { ...unoptimized, ...firstTuning },
    ),
    onLavapipe("long", { include: longGpuTests }),
    onLavapipe(
      "long_unoptimized",
      { include: [...longOfManyShapes, kernelChecks] },
      { ...unoptimized, WISP_TEST_TUNED_CASES: "1" },
    ),
    // Subgroups of sixteen invocations, of more than a run of lanes.
    onLavapipe(
      "wide_subgroups",
      { include: ["test/kernels/checks/linear.gpu.test.ts"] },
      { ...unoptimized, LP_NATIVE_VECTOR_WIDTH: "512", WISP_TEST_SUBGROUPS: "1" },
    ),
    onLavapipe("lavapipe", { include: gpuTests }),
    {
      ...onSwiftShader,
      name: "swiftshader",
      include: gpuTests,
      exclude: fullTest ? [] : ofAnyDriver,
    },
  ];
}

/** @param groupOrder Those of a lower one are through before it begins. */
function ofTarball(name: string, files: Files, groupOrder: number) {
  const globalSetup = [...shared.globalSetup, "test/shipped/support/tarball.ts"];
  const plugins = [builtFiles(root)];
  const test = { ...shared, ...files, name, globalSetup, sequence: { groupOrder } };
  return { extends: true as const, plugins, test };
}

export default defineConfig({
  ...packageBuild(),
  // The examples import this package by its name; tsconfig.json says where that is.
  resolve: { tsconfigPaths: true },
  test: {
    sequence: { sequencer: LongestFirst },
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
          exclude: [...gpuTests, shippedTests, ...ofBuiltFiles, ...longTests],
        },
      },
      { extends: true, test: { ...shared, name: "browsers", include: longTests } },
      ofTarball("shipped", { include: [shippedTests, ...ofBuiltFiles], exclude: [podTests] }, 0),
      ofTarball("pods", { include: [podTests] }, 3),
      ...driverProjects().map((test) => ({ extends: true as const, test })),
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

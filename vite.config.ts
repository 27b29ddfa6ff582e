import { defineConfig } from "vitest/config";

const shared = {
  pool: "forks" as const,
  maxWorkers: 2,
  // One process keeps its device and its compiled pipelines over many test files.
  isolate: false,
  testTimeout: 60_000,
  setupFiles: ["test/support/setup.ts"],
};

export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { ...shared, name: "fast", include: ["test/**/*.test.ts"] } },
    ],
  },
});

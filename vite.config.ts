import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: "fast",
          include: ["test/**/*.test.ts"],
          pool: "forks",
          maxWorkers: 2,
          isolate: false,
          testTimeout: 60_000,
        },
      },
    ],
  },
});

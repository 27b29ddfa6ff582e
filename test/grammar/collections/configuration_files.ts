/** Schemas of files that editors complete: workflows, packages, settings, compilers. */
import type { CollectedSchema } from "./collection.ts";

const DRAFT_7 = "http://json-schema.org/draft-07/schema#";

const workflow = {
  $schema: DRAFT_7,
  $id: "https://example.org/workflow.json",
  $comment: "https://example.org/workflow-syntax",
  definitions: {
    event: {
      $comment: "https://example.org/events",
      type: "string",
      enum: ["push", "pull_request", "workflow_dispatch", "schedule"],
    },
    globs: { type: "array", items: { type: "string", minLength: 1 }, minItems: 1 },
    ref: {
      type: "object",
      properties: {
        branches: { $ref: "#/definitions/globs" },
        "branches-ignore": { $ref: "#/definitions/globs" },
      },
      allOf: [{ not: { required: ["branches", "branches-ignore"] } }],
    },
    env: {
      oneOf: [
        {
          type: "object",
          additionalProperties: {
            oneOf: [{ type: "string" }, { type: "number" }, { type: "boolean" }],
          },
        },
        { type: "string", pattern: "^.*\\$\\{\\{(.|[\r\n])*\\}\\}.*$" },
      ],
    },
    step: {
      type: "object",
      additionalProperties: false,
      dependencies: { "working-directory": ["run"], shell: ["run"] },
      oneOf: [{ required: ["uses"] }, { required: ["run"] }],
      properties: {
        id: { type: "string" },
        if: { type: ["boolean", "number", "string"] },
        name: { type: "string" },
        uses: { type: "string" },
        run: { type: "string" },
        "working-directory": { type: "string" },
        shell: { anyOf: [{ type: "string" }, { type: "string", enum: ["bash", "pwsh"] }] },
        with: { $ref: "#/definitions/env" },
        env: { $ref: "#/definitions/env" },
        "timeout-minutes": { type: "number" },
      },
    },
    job: {
      type: "object",
      required: ["runs-on"],
      properties: {
        name: { type: "string" },
        needs: {
          oneOf: [
            { type: "array", items: { type: "string", pattern: "^[_a-zA-Z][a-zA-Z0-9_-]*$" } },
            { type: "string", pattern: "^[_a-zA-Z][a-zA-Z0-9_-]*$" },
          ],
        },
        "runs-on": { anyOf: [{ type: "string" }, { type: "array", minItems: 1 }] },
        steps: { type: "array", items: { $ref: "#/definitions/step" }, minItems: 1 },
      },
      additionalProperties: false,
    },
  },
  type: "object",
  properties: {
    name: { type: "string" },
    on: {
      oneOf: [
        { $ref: "#/definitions/event" },
        { type: "array", items: { $ref: "#/definitions/event" }, minItems: 1, uniqueItems: true },
        {
          type: "object",
          properties: { push: { $ref: "#/definitions/ref" }, schedule: { type: "array" } },
          additionalProperties: false,
        },
      ],
    },
    env: { $ref: "#/definitions/env" },
    jobs: {
      type: "object",
      patternProperties: { "^[_a-zA-Z][a-zA-Z0-9_-]*$": { $ref: "#/definitions/job" } },
      minProperties: 1,
      additionalProperties: false,
    },
  },
  required: ["on", "jobs"],
  additionalProperties: false,
};

const jobs = { build: { "runs-on": "linux", steps: [{ run: "make" }] } };

const packageFile = {
  $schema: DRAFT_7,
  title: "JSON schema of package files",
  definitions: {
    person: {
      description: "A person who has been involved.",
      type: ["object", "string"],
      required: ["name"],
      properties: {
        name: { type: "string" },
        url: { type: "string", format: "uri" },
        email: { type: "string", format: "email" },
      },
    },
    dependency: {
      description: "Versions by name.",
      type: "object",
      additionalProperties: { type: "string" },
    },
  },
  type: "object",
  properties: {
    name: {
      type: "string",
      maxLength: 214,
      minLength: 1,
      pattern: "^(?:(?:@(?:[a-z0-9-*~][a-z0-9-*._~]*)?/[a-z0-9-._~])|[a-z0-9-~])[a-z0-9-._~]*$",
    },
    version: { type: "string" },
    keywords: { type: "array", items: { type: "string" } },
    author: { $ref: "#/definitions/person" },
    files: { type: "array", items: { type: "string" }, uniqueItems: true },
    bin: { type: ["string", "object"], additionalProperties: { type: "string" } },
    scripts: {
      type: "object",
      properties: {
        test: { type: "string", "x-intellij-language-injection": "Shell Script" },
        build: { type: "string" },
      },
      additionalProperties: { type: "string", tsType: "string | undefined" },
    },
    dependencies: { $ref: "#/definitions/dependency" },
    devDependencies: { $ref: "#/definitions/dependency" },
    os: { type: "array", items: { type: "string" } },
    private: { anyOf: [{ type: "boolean" }, { enum: ["false", "true"] }] },
    workspaces: {
      anyOf: [
        { type: "array", items: { type: "string" } },
        { type: "object", properties: { packages: { type: "array", items: { type: "string" } } } },
      ],
    },
  },
  anyOf: [{ type: "object", not: { required: ["bundledDependencies", "bundleDependencies"] } }],
};

const settings = {
  $schema: DRAFT_7,
  allowComments: true,
  allowTrailingCommas: true,
  type: "object",
  properties: {
    "editor.tabSize": {
      type: "integer",
      default: 4,
      minimum: 1,
      markdownDescription: "The number of spaces a tab is equal to.",
      scope: "language-overridable",
    },
    "editor.wordWrap": {
      type: "string",
      enum: ["off", "on", "wordWrapColumn"],
      enumDescriptions: ["Lines never wrap.", "Lines wrap.", "At a column."],
    },
    "editor.rulers": {
      type: "array",
      items: {
        anyOf: [
          { type: "number" },
          {
            type: "object",
            required: ["column"],
            properties: {
              column: { type: "number" },
              color: { type: ["string", "null"], format: "color-hex" },
            },
          },
        ],
      },
    },
    "files.exclude": {
      type: "object",
      additionalProperties: {
        anyOf: [
          { type: "boolean" },
          {
            type: "object",
            properties: { when: { type: "string", pattern: "\\w*\\$\\(basename\\)\\w*" } },
          },
        ],
      },
      defaultSnippets: [{ label: "a", body: {} }],
    },
    "extensions.recommended": {
      type: "array",
      uniqueItems: true,
      items: {
        type: "string",
        pattern: "^[a-z0-9-]+\\.[a-z0-9-]+$",
        patternErrorMessage: "Expected format 'publisher.name'.",
      },
    },
  },
  patternProperties: {
    "^\\[.*\\]$": { type: "object", properties: { "editor.tabSize": { type: "integer" } } },
  },
};

const compiler = {
  $schema: "http://json-schema.org/draft-04/schema#",
  id: "https://example.org/compiler",
  definitions: {
    compilerOptions: {
      properties: {
        compilerOptions: {
          type: "object",
          properties: {
            target: {
              type: "string",
              anyOf: [
                { enum: ["ES5", "ES2020", "ESNext"] },
                { pattern: "^([Ee][Ss]([356]|(20(1[5-9]|2[0-9]))|[Nn][Ee][Xx][Tt]))$" },
              ],
              default: "ES5",
            },
            lib: {
              type: "array",
              uniqueItems: true,
              items: { type: "string", enum: ["DOM", "ES2015", "ES2020", "WebWorker"] },
            },
            strict: { type: "boolean", default: false, markdownDescription: "All of it." },
            paths: {
              type: "object",
              additionalProperties: {
                type: "array",
                uniqueItems: true,
                items: { type: "string", description: "Path mapping." },
              },
            },
            maxNodeModuleJsDepth: { type: "number", default: 0 },
          },
        },
      },
    },
    files: {
      properties: { files: { type: "array", uniqueItems: true, items: { type: "string" } } },
    },
    exclude: {
      properties: { exclude: { type: "array", uniqueItems: true, items: { type: "string" } } },
    },
  },
  type: "object",
  allOf: [
    { $ref: "#/definitions/compilerOptions" },
    { anyOf: [{ $ref: "#/definitions/files" }, { $ref: "#/definitions/exclude" }] },
  ],
};

const STEP_KINDS = Array.from({ length: 32 }, (_, i) => `step-${i}`);

export const CONFIGURATION_FILES: readonly CollectedSchema[] = [
  {
    name: "workflow",
    schema: workflow,
    valid: [
      { on: "push", jobs },
      { name: "CI", on: ["push", "pull_request"], env: { A: 1, B: "x" }, jobs },
      {
        on: { push: { branches: ["main"] } },
        jobs: {
          a: { "runs-on": ["self-hosted"], steps: [{ uses: "x/y@v1", with: { z: true } }] },
          "b-2": { needs: ["a"], "runs-on": "linux", steps: [{ run: "x", shell: "bash" }] },
        },
      },
      // biome-ignore lint/suspicious/noTemplateCurlyInString: an expression of workflows
      { on: "push", env: "${{ fromJSON(x) }}", jobs },
    ],
    invalid: [
      { on: "push", jobs: {} },
      { on: ["push", "push"], jobs },
      { on: "pull", jobs },
      { on: "push", jobs: { "1a": { "runs-on": "x" } } },
      { on: "push", jobs: { a: { "runs-on": "x", steps: [{ run: "a", uses: "b" }] } } },
      { on: "push", jobs: { a: { "runs-on": "x", steps: [{ uses: "b", shell: "bash" }] } } },
      { on: { push: { branches: ["a"], "branches-ignore": ["b"] } }, jobs },
    ],
  },
  {
    name: "package file",
    schema: packageFile,
    valid: [
      {},
      {
        name: "@scope/a",
        version: "1.0.0",
        author: "A",
        files: ["dist", "src"],
        scripts: { test: "x", other: "y" },
        dependencies: { a: "^1" },
        private: true,
        workspaces: { packages: ["a"] },
      },
      { author: { name: "A", email: "a@b.org" }, bin: { x: "y" }, unknown: [1] },
    ],
    invalid: [
      { name: "A" },
      { files: ["a", "b", "a"] },
      { author: {} },
      { dependencies: { a: 1 } },
      { private: "yes" },
      { bundledDependencies: [], bundleDependencies: [] },
    ],
  },
  {
    name: "editor settings",
    schema: settings,
    valid: [
      {
        "editor.tabSize": 2,
        "editor.wordWrap": "on",
        "editor.rulers": [80, { column: 100, color: null }],
        "files.exclude": { "**/.git": true, "**/*.js": { when: "$(basename).ts" } },
        "extensions.recommended": ["a.b", "c.d"],
        "[typescript]": { "editor.tabSize": 4 },
        other: 1,
      },
    ],
    invalid: [
      { "editor.tabSize": 0 },
      { "editor.wordWrap": "yes" },
      { "[x]": { "editor.tabSize": "4" } },
      { "extensions.recommended": ["a.b", "a.b"] },
      { "extensions.recommended": ["ab"] },
    ],
  },
  {
    name: "compiler options",
    schema: compiler,
    valid: [
      { compilerOptions: { target: "es2022", lib: ["DOM", "ES2020"], strict: true } },
      { compilerOptions: { paths: { "@/*": ["src/*", "lib/*"] } }, files: ["a.ts", "b.ts"] },
      { exclude: ["dist"] },
    ],
    invalid: [
      { compilerOptions: { target: "es1" } },
      { compilerOptions: { lib: ["DOM", "DOM"] } },
      { compilerOptions: { paths: { a: ["x", "x"] } } },
      { files: ["a", "a"], exclude: ["b", "b"] },
    ],
  },
  {
    name: "steps by kind, each with inputs of its own",
    schema: {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { uses: { enum: STEP_KINDS }, id: { type: "string" } },
      required: ["uses"],
      allOf: STEP_KINDS.map((kind, i) => ({
        if: { properties: { uses: { const: kind } } },
        // biome-ignore lint/suspicious/noThenProperty: the keyword is called so.
        then: { properties: { with: { required: [`input-${i}`] } }, required: ["with"] },
      })),
    },
    valid: [
      { uses: "step-3", with: { "input-3": "a" } },
      { uses: "step-27", with: { "input-27": 1, more: true }, id: "x" },
    ],
    invalid: [
      { uses: "step-3" },
      { uses: "step-3", with: { "input-4": "a" } },
      { uses: "step-99", with: {} },
      { with: {} },
    ],
  },
];

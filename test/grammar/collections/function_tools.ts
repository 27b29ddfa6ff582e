/** Parameters of function tools, as libraries that derive them from code write them. */
import type { CollectedSchema } from "./collection.ts";

export const FUNCTION_TOOLS: readonly CollectedSchema[] = [
  {
    name: "tool weather",
    schema: {
      type: "object",
      properties: {
        location: { type: "string", description: "City and state" },
        unit: { type: "string", enum: ["celsius", "fahrenheit"] },
        days: { type: "integer", minimum: 1, maximum: 14 },
      },
      required: ["location"],
    },
    valid: [{ location: "Wien" }, { location: "a", unit: "celsius", days: 14 }],
    invalid: [{}, { location: 1 }, { location: "a", unit: "kelvin" }, { location: "a", days: 15 }],
  },
  {
    name: "tool of a strict schema",
    schema: {
      type: "object",
      properties: {
        steps: {
          type: "array",
          items: {
            type: "object",
            properties: { explanation: { type: "string" }, output: { type: "string" } },
            required: ["explanation", "output"],
            additionalProperties: false,
          },
        },
        final_answer: { type: ["string", "null"] },
      },
      required: ["steps", "final_answer"],
      additionalProperties: false,
      strict: true,
    },
    valid: [
      { steps: [], final_answer: null },
      { steps: [{ explanation: "a", output: "b" }], final_answer: "c" },
    ],
    invalid: [{ steps: [] }, { steps: [{ explanation: "a" }], final_answer: null }],
  },
  {
    name: "tool of a data class",
    schema: {
      $defs: {
        Priority: { enum: ["low", "high"], title: "Priority", type: "string" },
        Task: {
          properties: {
            title: { maxLength: 80, minLength: 1, title: "Title", type: "string" },
            priority: { allOf: [{ $ref: "#/$defs/Priority" }], default: "low" },
            due: {
              anyOf: [{ format: "date", type: "string" }, { type: "null" }],
              default: null,
              title: "Due",
            },
            subtasks: { items: { $ref: "#/$defs/Task" }, title: "Subtasks", type: "array" },
            labels: { items: { type: "string" }, type: "array", uniqueItems: true },
            point: {
              maxItems: 2,
              minItems: 2,
              prefixItems: [{ type: "number" }, { type: "number" }],
              type: "array",
            },
          },
          required: ["title"],
          title: "Task",
          type: "object",
        },
      },
      properties: { tasks: { items: { $ref: "#/$defs/Task" }, title: "Tasks", type: "array" } },
      required: ["tasks"],
      title: "AddTasks",
      type: "object",
    },
    valid: [
      { tasks: [] },
      {
        tasks: [
          {
            title: "a",
            priority: "high",
            due: "2024-01-31",
            subtasks: [{ title: "b", due: null }],
            labels: ["x", "y"],
            point: [1, 2.5],
          },
        ],
      },
    ],
    invalid: [
      { tasks: [{ title: "" }] },
      { tasks: [{ title: "a", priority: "medium" }] },
      { tasks: [{ title: "a", due: "2024-02-30" }] },
      { tasks: [{ title: "a", labels: ["x", "x"] }] },
      { tasks: [{ title: "a", point: [1] }] },
    ],
  },
  {
    name: "tool with conditions",
    schema: {
      type: "object",
      properties: {
        action: { enum: ["move", "click", "type"] },
        x: { type: "integer", minimum: 0 },
        y: { type: "integer", minimum: 0 },
        text: { type: "string" },
      },
      required: ["action"],
      allOf: [
        {
          if: { properties: { action: { const: "type" } } },
          // biome-ignore lint/suspicious/noThenProperty: the name of a keyword of JSON Schema
          then: { required: ["text"] },
          else: { required: ["x", "y"] },
        },
      ],
      unevaluatedProperties: false,
    },
    valid: [
      { action: "move", x: 1, y: 2 },
      { action: "type", text: "a" },
    ],
    invalid: [{ action: "move", x: 1 }, { action: "type" }, { action: "type", text: "a", z: 1 }],
  },
  {
    name: "tool with pairs of sets",
    schema: {
      type: "object",
      properties: {
        ids: { type: "array", items: { type: "integer" }, uniqueItems: true, minItems: 2 },
        ranges: {
          type: "array",
          uniqueItems: true,
          items: {
            type: "object",
            properties: { from: { type: "integer" }, to: { type: "integer" } },
            required: ["from", "to"],
            additionalProperties: false,
          },
        },
        anything: { type: "array", uniqueItems: true },
      },
    },
    valid: [
      { ids: [1, 12, 2] },
      {
        ranges: [
          { from: 1, to: 2 },
          { from: 1, to: 3 },
        ],
      },
      { anything: [1, "1", [1], { a: 1 }, null, true] },
    ],
    invalid: [
      { ids: [1] },
      { ids: [1, 12, 1] },
      {
        ranges: [
          { from: 1, to: 2 },
          { from: 1, to: 2 },
        ],
      },
      { anything: [1, "1", 1] },
      { anything: [{ a: [1] }, { a: [1] }] },
    ],
  },
];

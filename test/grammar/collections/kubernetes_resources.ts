/** Schemas of CustomResourceDefinitions, and of resources that they are made of. */
import type { CollectedSchema } from "./collection.ts";

const metadata = {
  type: "object",
  properties: {
    name: {
      type: "string",
      pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
      maxLength: 253,
    },
    labels: { type: "object", additionalProperties: { type: "string" } },
  },
};

const intOrString = {
  anyOf: [{ type: "integer" }, { type: "string" }],
  "x-kubernetes-int-or-string": true,
  pattern:
    "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
};

const container = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string", minLength: 1 },
    image: { type: "string" },
    args: { type: "array", items: { type: "string" }, "x-kubernetes-list-type": "atomic" },
    env: {
      type: "array",
      items: {
        type: "object",
        required: ["name"],
        properties: { name: { type: "string" }, value: { type: "string" } },
      },
      "x-kubernetes-list-map-keys": ["name"],
      "x-kubernetes-list-type": "map",
    },
    ports: {
      type: "array",
      items: {
        type: "object",
        required: ["containerPort"],
        properties: {
          containerPort: { type: "integer", format: "int32", minimum: 1, maximum: 65535 },
          protocol: { type: "string", default: "TCP", enum: ["TCP", "UDP", "SCTP"] },
        },
      },
    },
    resources: {
      type: "object",
      properties: {
        limits: { type: "object", additionalProperties: intOrString },
        requests: { type: "object", additionalProperties: intOrString },
      },
    },
  },
};

const condition = {
  type: "object",
  required: ["lastTransitionTime", "status", "type"],
  properties: {
    lastTransitionTime: { type: "string", format: "date-time" },
    message: { type: "string", maxLength: 32768 },
    observedGeneration: { type: "integer", format: "int64", minimum: 0 },
    reason: {
      type: "string",
      pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
      maxLength: 1024,
    },
    status: { type: "string", enum: ["True", "False", "Unknown"] },
    type: { type: "string", maxLength: 316 },
  },
};

export const KUBERNETES_RESOURCES: readonly CollectedSchema[] = [
  {
    name: "kubernetes deployment-like resource",
    schema: {
      type: "object",
      required: ["spec"],
      properties: {
        apiVersion: { type: "string" },
        kind: { type: "string" },
        metadata,
        spec: {
          type: "object",
          required: ["template"],
          properties: {
            replicas: { type: "integer", format: "int32", minimum: 0, default: 1 },
            strategy: {
              type: "object",
              properties: {
                type: { type: "string", enum: ["RollingUpdate", "Recreate"] },
                rollingUpdate: {
                  type: "object",
                  properties: { maxSurge: intOrString, maxUnavailable: intOrString },
                },
              },
            },
            template: {
              type: "object",
              required: ["containers"],
              properties: { containers: { type: "array", minItems: 1, items: container } },
            },
          },
          "x-kubernetes-validations": [{ rule: "self.replicas <= 10", message: "too many" }],
        },
        status: {
          type: "object",
          properties: { conditions: { type: "array", items: condition } },
          "x-kubernetes-preserve-unknown-fields": true,
        },
      },
    },
    valid: [
      { spec: { template: { containers: [{ name: "a" }] } } },
      {
        apiVersion: "example.org/v1",
        kind: "Thing",
        metadata: { name: "a.b-c", labels: { x: "" } },
        spec: {
          replicas: 3,
          strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: "25" } },
          template: {
            containers: [
              {
                name: "a",
                image: "x:1",
                args: ["-v", "-v"],
                env: [{ name: "A", value: "1" }],
                ports: [{ containerPort: 80, protocol: "TCP" }],
                resources: { limits: { cpu: "500m", memory: "1Gi" }, requests: { cpu: 1 } },
              },
            ],
          },
        },
        status: {
          conditions: [
            { lastTransitionTime: "2024-01-01T00:00:00Z", status: "True", type: "Ready" },
          ],
          extra: [1, { a: null }],
        },
      },
    ],
    invalid: [
      {},
      { spec: { template: { containers: [] } } },
      { spec: { template: { containers: [{ name: "" }] } } },
      { metadata: { name: "A_b" }, spec: { template: { containers: [{ name: "a" }] } } },
      { spec: { template: { containers: [{ name: "a", ports: [{ containerPort: 0 }] }] } } },
      {
        spec: {
          template: { containers: [{ name: "a", resources: { limits: { cpu: "lots" } } }] },
        },
      },
    ],
  },
  {
    name: "kubernetes one of several sources",
    schema: {
      type: "object",
      properties: {
        source: {
          type: "object",
          minProperties: 1,
          maxProperties: 1,
          properties: {
            configMap: { type: "object", properties: { name: { type: "string" } } },
            secret: { type: "object", properties: { secretName: { type: "string" } } },
            emptyDir: { type: "object", properties: { sizeLimit: intOrString } },
          },
          additionalProperties: false,
        },
        finalizers: { type: "array", items: { type: "string" }, "x-kubernetes-list-type": "set" },
        hosts: { type: "array", items: { type: "string", format: "hostname" }, uniqueItems: true },
      },
      required: ["source"],
    },
    valid: [
      { source: { secret: { secretName: "a" } } },
      { source: { emptyDir: {} }, finalizers: ["a"], hosts: ["a.de", "b.de"] },
    ],
    invalid: [
      { source: {} },
      { source: { secret: {}, emptyDir: {} } },
      { source: { emptyDir: {} }, hosts: ["a.de", "a.de"] },
    ],
  },
];

/**
 * The arguments of two servers that have between them every option that works.
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { adapterName, scratch } from "./wisp.ts";

const shared = () => ["--adapter", adapterName(), "--random-seed", "7", "--host", "127.0.0.1"];

export function firstArguments(
  folders: Readonly<Record<"profiles" | "prefixes", string>>,
): readonly string[] {
  const all = [
    ["--served-model-name", "tiny", "small", "--stream-interval", "3", "--enable-cache-report"],
    ["--preferred-sampling-params", '{"temperature": 0, "max_new_tokens": 5}'],
    ["--watchdog-timeout", "60", "--health-check-timeout", "5", "--drain-timeout", "2"],
    ["--sleep-idle-seconds", "3600"],
    ["--log-level", "info", "--log-requests", "--log-requests-level", "2"],
    ["--decode-log-interval", "1", "--enable-metrics", "--collect-tokens-histogram"],
    ["--profile-dir", folders.profiles, "--api-key", "KEY", "--admin-api-key", "ADMIN"],
    ["--allowed-origins", "https://example.org", "--max-request-size", "4K"],
    ["--allowed-local-media-path", folders.profiles],
    ["--allowed-media-domains", "images.example.org"],
    ["--dist-timeout", "3600", "--send-timeout", "1"],
    ["--trust-remote-code", "--context-length", "512", "--allow-auto-truncate"],
    ["--numeric-class", "fma128", "--enable-deterministic-inference"],
    ["--attention-backend", "portable", "--grammar-backend", "auto", "--json-whitespace", "0"],
    ["--json-dialect", "draft-07", "--mem-fraction-static", "0.5", "--device-memory", "4G"],
    ["--kv-cache-dtype", "auto", "--max-total-tokens", "2048", "--max-running-requests", "4"],
    ["--page-size", "8", "--chunked-prefill-size", "64", "--max-prefill-tokens", "128"],
    ["--enable-mixed-chunk", "--disable-overlap-schedule", "--cuda-graph-bs", "1", "2", "4"],
    ["--prefix-cache-dir", folders.prefixes, "--prefix-cache-size", "10M"],
    ["--schedule-policy", "lpm", "--schedule-conservativeness", "1.5"],
    ["--retraction-memory", "16M", "--max-queued-requests", "2"],
    ["--tool-call-parser", "deepseekv3", "--reasoning-parser", "deepseek-r1"],
    ["--base-gpu-id", "0"],
  ];
  return [...shared(), ...all.flat()];
}

export function secondArguments(): readonly string[] {
  const template = join(scratch("template"), "chat.jinja");
  writeFileSync(template, "{% for m in messages %}[{{ m.content }}]{% endfor %}");
  const config = join(scratch("config"), "server.json");
  writeFileSync(config, JSON.stringify({ "served-model-name": "of-the-file", "page-size": 4 }));
  const location = join(scratch("location"), "counts.json");
  // Of five layers of eight experts.
  const counts = Array.from({ length: 5 }, (_, layer) => [9, 1, 1, layer, 1, 1, 1, 3]);
  writeFileSync(location, JSON.stringify({ logical_count: counts }));
  const rest = [
    ["--config", config, "--log-format", "json", "--profile-kernels"],
    ["--allowed-hosts", "wisp.test", "--request-memory", "16M"],
    ["--chat-template", template, "--chat-family", "deepseek-v3"],
    ["--disable-activation-quantization", "--quantization-report"],
    ["--json-unknown", "refuse", "--json-order", "schema", "--disable-web-page"],
    ["--json-jump", "retokenize", "--image-alpha", "white", "--image-cache-memory", "32M"],
    ["--prefill-attention-backend", "portable", "--decode-attention-backend", "portable"],
    ["--cuda-graph-max-bs", "2", "--disable-radix-cache", "--disable-chunked-prefix-cache"],
    ["--speculative-algorithm", "NGRAM", "--speculative-num-steps", "4"],
    ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "5"],
    ["--speculative-ngram-min-match-window-size", "3"],
    ["--speculative-ngram-max-match-window-size", "8", "--speculative-adaptive", "off"],
    ["--speculative-accept-threshold-single", "0.9", "--speculative-accept-threshold-acc", "0.9"],
    ["--tp", "2", "--nnodes", "1", "--node-rank", "0", "--dist-init-addr", "127.0.0.1:20102"],
    ["--disaggregation-bootstrap-port", "8997", "--disaggregation-bootstrap-timeout", "7"],
    ["--disaggregation-waiting-timeout", "8", "--disaggregation-heartbeat-interval", "9"],
    ["--num-reserved-decode-tokens", "10", "--disaggregation-key", "GROUP"],
    ["--ep-size", "2", "--ep-num-redundant-experts", "4", "--ep-dispatch-algorithm", "dynamic"],
    ["--enable-two-batch-overlap"],
    ["--moe-a2a-backend", "deepep", "--deepep-mode", "normal", "--deepep-config", "{}"],
    ["--init-expert-location", location, "--eplb-algorithm", "deepseek_hierarchical"],
    ["--expert-distribution-recorder-mode", "stat"],
    ["--expert-distribution-recorder-dir", scratch("experts")],
    ["--expert-distribution-recorder-buffer-size", "5"],
    ["--restart"],
    // What servers of one device do anyway.
    ["--dp", "1", "--load-balance-method", "shortest_queue", "--moe-dense-tp-size", "1"],
    ["--enable-dp-attention", "--enable-dp-lm-head"],
    ["--disaggregation-mode", "null"],
  ];
  return [...shared(), ...rest.flat()];
}

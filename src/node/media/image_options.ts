/**
 * Options for what a model sees of images.
 *
 * @module
 */
import { IMAGE_ALPHAS } from "../../images/alpha.ts";
import type { OptionTable } from "../options/option_parser.ts";

const GROUP = "Images";

export const IMAGE_OPTIONS = {
  imageAlpha: {
    flags: ["--image-alpha"],
    kind: "string",
    choices: IMAGE_ALPHAS,
    default: "drop",
    help: "alpha of images: drop shows the colours that it hides, white lays the picture on white",
    group: GROUP,
  },
  imageCacheMemory: {
    flags: ["--image-cache-memory"],
    kind: "bytes",
    value: "BYTES",
    min: 0,
    default: 64 * 2 ** 20,
    defaultText: "64M",
    help:
      "host memory for what the vision tower made of images, as 512M: images seen lately are not " +
      "computed again",
    group: GROUP,
  },
} as const satisfies OptionTable;

/**
 * Preloaded (`node --import`): a shader module gets the label of the pipeline that is made of it, and
 * Dawn gives its driver labels, so that the driver can tell which pipeline it compiles.
 */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const FEATURES = "enable-dawn-features=";
const LABELS = "use_user_defined_labels_in_backend";

/** Dawn's binding where this project has it; a process without it needs no labels. */
function bindingPath() {
  const require = createRequire(join(process.cwd(), "package.json"));
  try {
    const file = `${process.platform}-${process.arch}/dawn.node`;
    return join(dirname(require.resolve("webgpu")), "dist", file);
  } catch {
    return undefined;
  }
}

const path = bindingPath();
if (path !== undefined) {
  const binding = createRequire(import.meta.url)(path);
  const { create } = binding;
  binding.create = (flags = []) => {
    const asked = flags.filter((flag) => flag.startsWith(FEATURES));
    const features = [...asked.map((flag) => flag.slice(FEATURES.length)), LABELS];
    return create([...flags.filter((flag) => !asked.includes(flag)), FEATURES + features.join()]);
  };
  const { prototype } = binding.globals.GPUDevice;
  for (const name of ["createComputePipeline", "createComputePipelineAsync"]) {
    const create = prototype[name];
    prototype[name] = function (descriptor) {
      if (descriptor.label) descriptor.compute.module.label = descriptor.label;
      return create.call(this, descriptor);
    };
  }
}

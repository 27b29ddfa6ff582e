/**
 * Imported before anything that opens a device: keeps drivers from finding shaders that they have
 * compiled in another process.
 *
 * @module
 */
process.env.MESA_SHADER_CACHE_DISABLE ??= "true"; // Mesa
process.env.__GL_SHADER_DISK_CACHE ??= "0"; // NVIDIA

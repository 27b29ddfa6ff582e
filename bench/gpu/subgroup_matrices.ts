/**
 * Imported before anything that opens a device: asks for the subgroup matrices of the adapter.
 *
 * @module
 */
process.env.WISP_SUBGROUP_MATRICES ??= "1";

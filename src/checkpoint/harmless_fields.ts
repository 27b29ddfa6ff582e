/**
 * Fields of config.json that change nothing about inference, in one place: training, bookkeeping,
 * generation defaults (generation_config.json is where those count) and what the files say anyway.
 *
 * @module
 */

/**
 * Whole families of names: private to the library that wrote the file, ids of special tokens (the
 * tokenizer and the generation defaults decide), what training drops, one trainer's own, penalties,
 * beams and bans of generation, and in what form a library returns its outputs.
 */
const FAMILIES =
  /^_|_token_id$|dropout|_pdrop$|^unsloth_|_penalty$|return_dict|^num_(beam|return)|suppress_tokens$/;

const NAMES: ReadonlySet<string> = new Set([
  // Bookkeeping.
  "architectures",
  "auto_map",
  "custom_pipelines",
  "finetuning_task",
  "id2label",
  "label2id",
  "model_type",
  "name_or_path",
  "prefix",
  "problem_type",
  "task_specific_params",
  "tokenizer_class",
  "transformers_version",
  // What wrote the file (SmolLM's trainer), and how a library in browsers loads another form of it.
  "is_llama_config",
  "transformers.js_config",
  // Element type the weights were saved in; the weights' own headers say it better.
  "dtype",
  "torch_dtype",
  // OpenAI's own name for what rope_scaling repeats as original_max_position_embeddings.
  "initial_context_length",
  // What the first Llama files call max_position_embeddings, which they have too.
  "max_sequence_length",
  // Training only.
  "aux_loss_alpha",
  "gradient_checkpointing",
  "initializer_range",
  "router_aux_loss_coef",
  "router_jitter_noise",
  "router_z_loss_coef",
  "seq_aux",
  // How another engine runs the model: the numbers stay the same.
  "attn_implementation",
  "chunk_size_feed_forward",
  "ep_size",
  "is_decoder",
  "max_window_layers",
  "output_attentions",
  "output_hidden_states",
  "output_router_logits",
  "pretraining_tp",
  "tf_legacy_loss",
  "torchscript",
  "use_bfloat16",
  "use_cache",
  // Generation defaults.
  "bad_words_ids",
  "do_sample",
  "early_stopping",
  "encoder_no_repeat_ngram_size",
  "max_length",
  "min_length",
  "no_repeat_ngram_size",
  "output_scores",
  "remove_invalid_values",
  "temperature",
  "top_k",
  "top_p",
  "typical_p",
]);

/** Another kind of model when switched on. */
const SWITCHES: ReadonlySet<string> = new Set([
  "add_cross_attention",
  "is_encoder_decoder",
  "rope_interleaved",
  "tie_encoder_decoder",
  "use_mrope",
  "use_sliding_window",
]);

export function isHarmless(field: string, value: unknown): boolean {
  if (FAMILIES.test(field) || NAMES.has(field)) return true;
  if (SWITCHES.has(field)) return value === false;
  return field === "pruned_heads" && JSON.stringify(value) === "{}";
}

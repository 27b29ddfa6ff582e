/**
 * Fields of config.json that change nothing about inference, in one place: training, bookkeeping,
 * generation defaults (generation_config.json is where those count) and what the files say anyway.
 *
 * @module
 */

type Allowed = "any" | readonly unknown[];

/**
 * Allowed values of each field, or "any". A field with a list switches something on that no model
 * here has when it holds another value.
 */
export const HARMLESS_FIELDS: ReadonlyMap<string, Allowed> = new Map<string, Allowed>([
  // Bookkeeping.
  ...any(
    "architectures",
    "auto_map",
    "custom_pipelines",
    "finetuning_task",
    "id2label",
    "label2id",
  ),
  ...any("model_type", "name_or_path", "prefix", "problem_type", "task_specific_params"),
  ...any("tokenizer_class", "transformers_version", "unsloth_fixed", "unsloth_version"),
  // What wrote the file (SmolLM's trainer), and how a library in browsers loads another form of it.
  ...any("is_llama_config", "transformers.js_config"),
  // Element type the weights were saved in; the weights' own headers say it better.
  ...any("dtype", "torch_dtype"),
  // Ids of special tokens; the tokenizer and the generation defaults decide.
  ...any(
    "bos_token_id",
    "cls_token_id",
    "decoder_start_token_id",
    "eos_token_id",
    "mask_token_id",
    "pad_token_id",
    "sep_token_id",
  ),
  // OpenAI's own name for what rope_scaling repeats as original_max_position_embeddings.
  ...any("initial_context_length"),
  // What the first Llama files call max_position_embeddings, which they have too.
  ...any("max_sequence_length"),
  // Training only.
  ...any(
    "attention_dropout",
    "attn_pdrop",
    "aux_loss_alpha",
    "dropout",
    "embd_pdrop",
    "hidden_dropout",
  ),
  ...any("hidden_dropout_prob", "initializer_range", "resid_pdrop", "router_aux_loss_coef"),
  ...any("router_jitter_noise", "router_z_loss_coef", "seq_aux", "gradient_checkpointing"),
  // How another engine runs the model: the numbers stay the same.
  ...any(
    "attn_implementation",
    "chunk_size_feed_forward",
    "ep_size",
    "is_decoder",
    "max_window_layers",
    "pretraining_tp",
    "use_cache",
  ),
  ...any("output_attentions", "output_hidden_states", "output_router_logits", "return_dict"),
  ...any("tf_legacy_loss", "torchscript", "use_bfloat16", "use_return_dict"),
  // Generation defaults.
  ...any("bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample"),
  ...any("early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty"),
  ...any(
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
  ),
  ...any("no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences"),
  ...any("output_scores", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate"),
  ...any("suppress_tokens", "temperature", "top_k", "top_p", "typical_p"),
  // Another kind of model when switched on.
  ["add_cross_attention", [false]],
  ["is_encoder_decoder", [false]],
  ["pruned_heads", [{}]],
  ["rope_interleaved", [false]],
  ["tie_encoder_decoder", [false]],
  ["use_mrope", [false]],
  ["use_sliding_window", [false]],
]);

function any(...fields: string[]): [string, Allowed][] {
  return fields.map((field) => [field, "any"]);
}

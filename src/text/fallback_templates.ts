/**
 * Chat templates of our own for checkpoints that ship none though they were trained on a known
 * format. A checkpoint's own template always wins; these stay with what the format fixes.
 *
 * @module
 */

const CHATML = String.raw`{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- '# Tools\n\nThese functions can be called. Their signatures are within <tools></tools>:\n<tools>' }}
    {%- for tool in tools %}{{- '\n' + (tool | tojson) }}{%- endfor %}
    {{- '\n</tools>\n\nEach call is one JSON object within <tool_call></tool_call>:\n' }}
    {{- '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- elif not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {%- if message.content or not loop.first %}{{- '\n' }}{%- endif %}
            {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- (call.function.arguments | tojson) + '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}`;

const DEEPSEEK_V3 = String.raw`{%- set ns = namespace(system='', last='') %}
{%- for message in messages if message.role == 'system' %}
    {%- set ns.system = ns.system + ('\n\n' if ns.system else '') + message.content %}
{%- endfor %}
{{- bos_token + ns.system }}
{%- if tools %}
    {{- ('\n\n' if ns.system else '') + '## Tools\nThese functions can be called:\n' }}
    {%- for tool in tools %}{{- '\nFENCEjson\n' + (tool.function | tojson) + '\nFENCE\n' }}{%- endfor %}
    {{- '\nCalls are written as\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n' }}
    {{- 'FENCEjson\nARGUMENTS\nFENCE<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}
{%- endif %}
{%- for message in messages if message.role != 'system' %}
    {%- if ns.last == 'tool' and message.role != 'tool' %}{{- '<｜tool▁outputs▁end｜>' }}{%- endif %}
    {%- if message.role == 'user' %}
        {{- '<｜User｜>' + message.content + '<｜Assistant｜>' }}
    {%- elif message.role == 'assistant' %}
        {{- message.content.split('</think>')[-1] }}
        {%- for call in message.tool_calls or [] %}
            {{- '<｜tool▁calls▁begin｜>' if loop.first else '\n' }}
            {{- '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + call.function.name + '\nFENCEjson\n' }}
            {{- call.function.arguments + '\nFENCE<｜tool▁call▁end｜>' }}
            {%- if loop.last %}{{- '<｜tool▁calls▁end｜>' }}{%- endif %}
        {%- endfor %}
        {{- eos_token }}
    {%- elif message.role == 'tool' %}
        {{- '\n' if ns.last == 'tool' else '<｜tool▁outputs▁begin｜>' }}
        {{- '<｜tool▁output▁begin｜>' + message.content + '<｜tool▁output▁end｜>' }}
    {%- endif %}
    {%- set ns.last = message.role %}
{%- endfor %}
{%- if ns.last == 'tool' %}{{- '<｜tool▁outputs▁end｜>' }}{%- endif %}
{%- if add_generation_prompt and ns.last not in ['user', 'tool'] %}{{- '<｜Assistant｜>' }}{%- endif %}`
  // Back quotes would end the literal.
  .replaceAll("FENCE", "```");

const LLAMA_3 = String.raw`{{- bos_token }}
{%- for message in messages %}
    {%- set role = 'ipython' if message.role == 'tool' else message.role %}
    {%- if tools and loop.first and role != 'system' %}
        {{- '<|start_header_id|>system<|end_header_id|>\n\n' + tool_text() + '<|eot_id|>' }}
    {%- endif %}
    {{- '<|start_header_id|>' + role + '<|end_header_id|>\n\n' }}
    {%- if tools and loop.first and role == 'system' %}{{- tool_text() + '\n\n' }}{%- endif %}
    {{- message.content | trim }}
    {%- for call in message.tool_calls or [] %}
        {{- '\n' if message.content or not loop.first else '' }}
        {{- '{"name": "' + call.function.name + '", "parameters": ' + (call.function.arguments | tojson) + '}' }}
    {%- endfor %}
    {{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}`;

const LLAMA_3_TOOLS = String.raw`{%- macro tool_text() %}
    {{- 'Environment: ipython\n\nThese functions can be called by answering with nothing but JSON of the form ' }}
    {{- '{"name": function name, "parameters": object of argument names and values}:' }}
    {%- for tool in tools %}{{- '\n\n' + (tool | tojson(indent=4)) }}{%- endfor %}
{%- endmacro %}
`;

const HARMONY = String.raw`{%- macro type_of(schema) %}
    {%- if schema.enum %}
        {%- for value in schema.enum %}{{- (' | ' if not loop.first else '') + (value | tojson) }}{%- endfor %}
    {%- elif schema.type == 'array' %}{{- (type_of(schema['items']) if schema['items'] else 'any') + '[]' }}
    {%- elif schema.type == 'integer' %}{{- 'number' }}
    {%- elif schema.type == 'object' and schema.properties %}{{- fields_of(schema) }}
    {%- elif schema.type is string %}{{- schema.type }}
    {%- else %}{{- 'any' }}
    {%- endif %}
{%- endmacro %}
{%- macro fields_of(schema) %}
    {{- '{\n' }}
    {%- for name, field in schema.properties.items() %}
        {%- if field.description %}{{- '// ' + field.description + '\n' }}{%- endif %}
        {{- name + ('' if name in (schema.required or []) else '?') + ': ' + type_of(field) + ',\n' }}
    {%- endfor %}
    {{- '}' }}
{%- endmacro %}
{{- '<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n' }}
{{- 'Knowledge cutoff: 2024-06\nCurrent date: ' + strftime_now('%Y-%m-%d') + '\n\n' }}
{{- 'Reasoning: ' + (reasoning_effort or 'medium') + '\n\n' }}
{{- '# Valid channels: analysis, commentary, final. Channel must be included for every message.' }}
{%- if tools %}{{- "\nCalls to these tools must go to the commentary channel: 'functions'." }}{%- endif %}
{{- '<|end|>' }}
{%- set instructed = messages[0].role == 'system' %}
{%- if instructed or tools %}
    {{- '<|start|>developer<|message|>' }}
    {%- if instructed %}{{- '# Instructions\n\n' + messages[0].content + '\n\n' }}{%- endif %}
    {%- if tools %}
        {{- '# Tools\n\n## functions\n\nnamespace functions {\n\n' }}
        {%- for tool in tools %}
            {%- set spec = tool.function %}
            {%- if spec.description %}{{- '// ' + spec.description + '\n' }}{%- endif %}
            {%- if spec.parameters and spec.parameters.properties %}
                {{- 'type ' + spec.name + ' = (_: ' + fields_of(spec.parameters) + ') => any;\n\n' }}
            {%- else %}{{- 'type ' + spec.name + ' = () => any;\n\n' }}
            {%- endif %}
        {%- endfor %}
        {{- '} // namespace functions' }}
    {%- endif %}
    {{- '<|end|>' }}
{%- endif %}
{%- set ns = namespace(called='', answered=-1) %}
{%- for message in messages %}
    {%- if message.role == 'assistant' and not message.tool_calls %}{%- set ns.answered = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- if message.tool_calls %}
            {%- if message.thinking and loop.index0 > ns.answered %}
                {{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}
            {%- endif %}
            {%- if message.content %}
                {{- '<|start|>assistant<|channel|>commentary<|message|>' + message.content + '<|end|>' }}
            {%- endif %}
            {%- set ns.called = message.tool_calls[0].function.name %}
            {{- '<|start|>assistant to=functions.' + ns.called + '<|channel|>commentary json<|message|>' }}
            {{- message.tool_calls[0].function.arguments + '<|call|>' }}
        {%- else %}
            {{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}
        {%- endif %}
    {%- elif message.role == 'tool' %}
        {{- '<|start|>functions.' + ns.called + ' to=assistant<|channel|>commentary<|message|>' }}
        {{- message.content + '<|end|>' }}
    {%- elif message.role == 'user' %}
        {{- '<|start|>user<|message|>' + message.content + '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}`;

/** Each with the tokens that it writes. A model whose vocabulary lacks one never learned them. */
export const FALLBACK_TEMPLATES = {
  chatml: { source: CHATML, tokens: ["<|im_start|>", "<|im_end|>"] },
  deepseekV3: { source: DEEPSEEK_V3, tokens: ["<｜User｜>", "<｜Assistant｜>"] },
  llama3: {
    source: LLAMA_3_TOOLS + LLAMA_3,
    tokens: ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
  },
  harmony: {
    source: HARMONY,
    tokens: ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>"],
  },
} as const;

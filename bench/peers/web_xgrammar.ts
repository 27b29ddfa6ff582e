/**
 * XGrammar as it is compiled to WebAssembly.
 *
 * The package is no dependency of ours, so what is used of it is written down here. It calls itself
 * a module but is a script for CommonJS, so Node cannot import it. Each call of `loadXGrammar` gives
 * an instance of its own.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const FILE = fileURLToPath(
  new URL("node_modules/@mlc-ai/web-xgrammar/lib/index.js", import.meta.url),
);

export const XGRAMMAR = "@mlc-ai/web-xgrammar 0.1.27";

interface CompiledGrammar {
  dispose(): void;
}

interface GrammarMatcher {
  getNextTokenBitmask(): Promise<Int32Array>;
  acceptToken(id: number): boolean;
  dispose(): void;
}

interface GrammarCompiler {
  compileJSONSchema(schema: string): Promise<CompiledGrammar>;
  compileGrammar(ebnf: string, root: string): Promise<CompiledGrammar>;
  compileBuiltinJSONGrammar(): Promise<CompiledGrammar>;
}

export interface XGrammar {
  readonly TokenizerInfo: {
    createTokenizerInfo(
      tokens: readonly string[],
      encoding: "byte_level",
      prependsSpace: boolean,
      size: number,
      endTokens: readonly number[],
    ): Promise<object>;
  };
  readonly GrammarCompiler: {
    createGrammarCompiler(tokenizer: object, cache: boolean): Promise<GrammarCompiler>;
  };
  readonly GrammarMatcher: {
    createGrammarMatcher(grammar: CompiledGrammar): Promise<GrammarMatcher>;
  };
}

/** A fresh instance; what it prints is dropped. */
export function loadXGrammar(): XGrammar {
  const module: { exports: unknown } = { exports: {} };
  const ignore = () => {};
  const script = new Function(
    ...["exports", "module", "require", "__filename", "console"],
    readFileSync(FILE, "utf8"),
  );
  const console = { log: ignore, error: ignore, warn: ignore };
  script.call(globalThis, module.exports, module, createRequire(FILE), FILE, console);
  return module.exports as XGrammar;
}

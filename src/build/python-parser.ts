import { createRequire } from "node:module";
import { Language, type Node, Parser, type Tree } from "web-tree-sitter";

/** Python's grammar, loaded once for a scan. Everything parsed lives until dispose(). */
export class PythonParser {
  readonly #parser: Parser;
  readonly #trees: Tree[] = [];

  private constructor(parser: Parser) {
    this.#parser = parser;
  }

  static async load(): Promise<PythonParser> {
    const { resolve } = createRequire(import.meta.url);
    await Parser.init();
    const language = await Language.load(resolve("tree-sitter-python/tree-sitter-python.wasm"));
    const parser = new Parser();
    parser.setLanguage(language);
    return new PythonParser(parser);
  }

  parse(text: string): Node {
    const tree = this.#parser.parse(text);
    if (tree === null) throw new Error("The Python parser gave no tree.");
    this.#trees.push(tree);
    return tree.rootNode;
  }

  dispose(): void {
    for (const tree of this.#trees) tree.delete();
    this.#parser.delete();
  }
}

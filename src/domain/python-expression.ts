/**
 * The part of Python's expressions that annotations and default values are written in, parsed without Python:
 * names, `X[...]`, `A | B`, texts, numbers, True, False, None, lists, tuples and dicts. Anything else is undefined.
 */
export type PythonExpression =
  | { readonly kind: "name"; readonly name: string; readonly arguments?: readonly PythonExpression[] }
  | { readonly kind: "value"; readonly value: string | number | boolean | null }
  | { readonly kind: "list" | "tuple" | "union"; readonly items: readonly PythonExpression[] }
  | { readonly kind: "dict"; readonly pairs: readonly (readonly [PythonExpression, PythonExpression])[] }
  | { readonly kind: "ellipsis" };

/** undefined for an expression beyond these, such as a call. */
export function parsePythonExpression(source: string): PythonExpression | undefined {
  try {
    const parser = new Parser(source);
    const expression = parser.expression();
    parser.expectEnd();
    return expression;
  } catch (error) {
    if (error instanceof Beyond) return undefined;
    throw error;
  }
}

/** What a literal stands for, as JSON; undefined for what is no literal. Tuples become arrays. */
export function literalValue(expression: PythonExpression | undefined): unknown {
  switch (expression?.kind) {
    case "value":
      return expression.value;
    case "list":
    case "tuple": {
      const values = expression.items.map(literalValue);
      return values.includes(undefined) ? undefined : values;
    }
    case "dict": {
      const pairs = expression.pairs.map(([key, value]) => [literalValue(key), literalValue(value)] as const);
      const plain = pairs.every(([key, value]) => typeof key === "string" && value !== undefined);
      return plain ? Object.fromEntries(pairs) : undefined;
    }
    default:
      return undefined;
  }
}

/** The expression is none of those above. */
class Beyond extends Error {}

const TOKEN =
  /\s*(?:#.*\n)?\s*(?:(?<number>(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?(?![\w.]))|(?<prefix>[rRuU]?)(?<text>"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\\n]|\\[\s\S])*"|'(?:[^'\\\n]|\\[\s\S])*')|(?<name>[\p{L}_][\p{L}\p{N}_]*)|(?<mark>\.\.\.|[[\](){},.|:+-]))/uy;

interface Token {
  readonly kind: "number" | "text" | "name" | "mark" | "end";
  readonly value: string;
}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(source: string) {
    this.#tokens = tokens(source.trim());
  }

  expression(): PythonExpression {
    const first = this.#operand();
    const items = [first];
    while (this.#takes("|")) items.push(this.#operand());
    return items.length === 1 ? first : { kind: "union", items };
  }

  expectEnd(): void {
    if (this.#next.kind !== "end") throw new Beyond();
  }

  get #next(): Token {
    return this.#tokens[this.#at]!;
  }

  #takes(mark: string): boolean {
    if (this.#next.kind !== "mark" || this.#next.value !== mark) return false;
    this.#at++;
    return true;
  }

  #operand(): PythonExpression {
    const token = this.#next;
    this.#at++;
    if (token.kind === "number") return { kind: "value", value: Number(token.value.replaceAll("_", "")) };
    if (token.kind === "text") return this.#text(token.value);
    if (token.kind === "name") return this.#name(token.value);
    switch (token.value) {
      case "...":
        return { kind: "ellipsis" };
      case "[":
        return { kind: "list", items: this.#items("]") };
      case "(":
        return this.#parenthesised();
      case "{":
        return this.#dict();
      case "-":
      case "+": {
        const operand = this.#operand();
        if (operand.kind !== "value" || typeof operand.value !== "number") throw new Beyond();
        return { kind: "value", value: token.value === "-" ? -operand.value : operand.value };
      }
      default:
        throw new Beyond();
    }
  }

  /** Adjacent texts are one. */
  #text(first: string): PythonExpression {
    let value = first;
    while (this.#next.kind === "text") value += this.#tokens[this.#at++]!.value;
    return { kind: "value", value };
  }

  #name(first: string): PythonExpression {
    if (first === "None") return { kind: "value", value: null };
    if (first === "True" || first === "False") return { kind: "value", value: first === "True" };
    let name = first;
    while (this.#takes(".")) {
      if (this.#next.kind !== "name") throw new Beyond();
      name += `.${this.#tokens[this.#at++]!.value}`;
    }
    return this.#takes("[") ? { kind: "name", name, arguments: this.#items("]") } : { kind: "name", name };
  }

  #parenthesised(): PythonExpression {
    const comma = this.#at;
    const items = this.#items(")");
    const isTuple = items.length !== 1 || this.#tokens.slice(comma, this.#at).at(-2)?.value === ",";
    return isTuple ? { kind: "tuple", items } : items[0]!;
  }

  #items(end: string): PythonExpression[] {
    const items: PythonExpression[] = [];
    while (!this.#takes(end)) {
      items.push(this.expression());
      if (!this.#takes(",") && this.#next.value !== end) throw new Beyond();
    }
    return items;
  }

  #dict(): PythonExpression {
    const pairs: [PythonExpression, PythonExpression][] = [];
    while (!this.#takes("}")) {
      const key = this.expression();
      if (!this.#takes(":")) throw new Beyond();
      pairs.push([key, this.expression()]);
      if (!this.#takes(",") && this.#next.value !== "}") throw new Beyond();
    }
    return { kind: "dict", pairs };
  }
}

function tokens(source: string): Token[] {
  const found: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < source.length) {
    const groups = TOKEN.exec(source)?.groups;
    if (groups === undefined) throw new Beyond();
    const { number, text, prefix, name, mark } = groups;
    if (number !== undefined) found.push({ kind: "number", value: number });
    else if (text !== undefined) found.push({ kind: "text", value: content(text, prefix!.toLowerCase() === "r") });
    else if (name !== undefined) found.push({ kind: "name", value: name });
    else found.push({ kind: "mark", value: mark! });
  }
  found.push({ kind: "end", value: "" });
  return found;
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  "\\": "\\",
  "'": "'",
  '"': '"',
  "\n": "",
};

function content(text: string, raw: boolean): string {
  const quotes = /^("""|''')/.test(text) ? 3 : 1;
  const inner = text.slice(quotes, -quotes);
  if (raw) return inner;
  return inner.replace(/\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([\s\S]))/gi, (_, x, u, single) => {
    const code = x ?? u;
    if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16));
    const plain = ESCAPES[single];
    if (plain === undefined) throw new Beyond();
    return plain;
  });
}

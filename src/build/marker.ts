/** Environment markers of requirements (PEP 508): `python_version >= "3.10" and sys_platform == "linux"`. */

/** What is true where workers run; `extra` is asked for each of the extras that were requested. */
export function targetEnvironment(pythonVersion: string): Record<string, string> {
  return {
    python_version: pythonVersion,
    python_full_version: `${pythonVersion}.0`,
    os_name: "posix",
    sys_platform: "linux",
    platform_system: "Linux",
    platform_machine: "x86_64",
    platform_release: "",
    platform_version: "",
    platform_python_implementation: "CPython",
    implementation_name: "cpython",
    implementation_version: `${pythonVersion}.0`,
  };
}

const TOKEN = /\s*(\(|\)|"[^"]*"|'[^']*'|===|==|~=|!=|<=|>=|<|>|not\s+in\b|[a-z_.]+)/giy;

/** Whether the marker holds. What cannot be understood counts as true: rather one package too many. */
export function markerHolds(
  marker: string,
  environment: Readonly<Record<string, string>>,
  extras: readonly string[] = [],
): boolean {
  if (marker.trim() === "") return true;
  const choices = extras.length === 0 ? [""] : extras;
  return choices.some((extra) => {
    try {
      return new MarkerReader(marker, { ...environment, extra }).read();
    } catch {
      return true;
    }
  });
}

class MarkerReader {
  readonly #tokens: string[];
  readonly #environment: Readonly<Record<string, string>>;
  #next = 0;

  constructor(marker: string, environment: Readonly<Record<string, string>>) {
    this.#tokens = [...marker.matchAll(TOKEN)].map((match) => match[1]!);
    this.#environment = environment;
  }

  read(): boolean {
    const value = this.#or();
    if (this.#next < this.#tokens.length) throw new Error("more follows");
    return value;
  }

  #take(): string {
    const token = this.#tokens[this.#next++];
    if (token === undefined) throw new Error("ends too early");
    return token;
  }

  #or(): boolean {
    let value = this.#and();
    while (this.#tokens[this.#next] === "or") {
      this.#next++;
      const right = this.#and();
      value ||= right;
    }
    return value;
  }

  #and(): boolean {
    let value = this.#comparison();
    while (this.#tokens[this.#next] === "and") {
      this.#next++;
      const right = this.#comparison();
      value &&= right;
    }
    return value;
  }

  #comparison(): boolean {
    if (this.#tokens[this.#next] === "(") {
      this.#next++;
      const value = this.#or();
      if (this.#take() !== ")") throw new Error("a bracket is open");
      return value;
    }
    const leftToken = this.#take();
    const operator = this.#take().replace(/\s+/g, " ");
    const rightToken = this.#take();
    const versions = /version/.test(leftToken) || /version/.test(rightToken);
    return compare(this.#value(leftToken), operator, this.#value(rightToken), versions);
  }

  #value(token: string): string {
    if (/^["']/.test(token)) return token.slice(1, -1);
    const value = this.#environment[token.replace(/^(os|sys|platform)\./, "$1_")];
    if (value === undefined) throw new Error(`unknown variable ${token}`);
    return value;
  }
}

function compare(left: string, operator: string, right: string, versions: boolean): boolean {
  if (operator === "in") return right.includes(left);
  if (operator === "not in") return !right.includes(left);
  if (operator === "===") return left === right;
  if (!versions || !/^\d/.test(left) || !/^\d/.test(right)) {
    if (operator === "==") return left.toLowerCase() === right.toLowerCase();
    if (operator === "!=") return left.toLowerCase() !== right.toLowerCase();
    throw new Error("texts have no order");
  }
  const prefix = right.replace(/\.\*$/, "");
  const order = compareVersions(left, prefix, right.endsWith(".*"));
  switch (operator) {
    case "==":
      return order === 0;
    case "!=":
      return order !== 0;
    case "<":
      return order < 0;
    case "<=":
      return order <= 0;
    case ">":
      return order > 0;
    case ">=":
      return order >= 0;
    case "~=":
      return order >= 0 && compareVersions(left, right.split(".").slice(0, -1).join("."), true) === 0;
    default:
      throw new Error(`unknown operator ${operator}`);
  }
}

/** Release numbers only; `asPrefix` looks no further than `right` does. */
function compareVersions(left: string, right: string, asPrefix: boolean): number {
  const numbers = (version: string) => version.split(".").map((part) => Number.parseInt(part, 10) || 0);
  const a = numbers(left);
  const b = numbers(right);
  const count = asPrefix ? b.length : Math.max(a.length, b.length);
  for (let i = 0; i < count; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Whether an installed version meets a requirement such as "numpy>=1.26,<3". */

/** The name of a distribution as indexes compare it. */
export function normalizedName(requirement: string): string {
  return (/^[A-Za-z0-9][\w.-]*/.exec(requirement.trim())?.[0] ?? "").replace(/[-_.]+/g, "-").toLowerCase();
}

/**
 * False only when the numbers of the version plainly break a clause. What is not understood (URLs, markers, pre-releases)
 * holds: the import says the rest.
 */
export function isMet(requirement: string, version: string): boolean {
  const [specifiers = "", marker] = requirement.replace(/^\s*[A-Za-z0-9][\w.-]*\s*(\[[^\]]*\])?\s*/, "").split(";");
  if (marker !== undefined) return true;
  const clauses = specifiers.replace(/[()]/g, "").split(",");
  return clauses.every((clause) => {
    const [, operator, wanted, star] = /^\s*(==|!=|~=|>=|<=|>|<)\s*v?(\d+(?:\.\d+)*)(\.\*)?\s*$/.exec(clause) ?? [];
    if (operator === undefined || wanted === undefined) return true;
    const has = numbers(version);
    const asked = numbers(wanted);
    const order = compare(has, asked);
    const within = compare(has.slice(0, asked.length), asked) === 0;
    if (operator === "==") return star === undefined ? order === 0 : within;
    if (operator === "!=") return star === undefined ? order !== 0 : !within;
    if (operator === ">=") return order >= 0;
    if (operator === "<=") return order <= 0;
    if (operator === ">") return order > 0;
    if (operator === "<") return order < 0;
    return order >= 0 && compare(has.slice(0, asked.length - 1), asked.slice(0, -1)) === 0;
  });
}

/** "2.5.1+cu124" → [2, 5, 1] */
function numbers(version: string): number[] {
  return (/^\d+(\.\d+)*/.exec(version)?.[0] ?? "").split(".").map(Number);
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

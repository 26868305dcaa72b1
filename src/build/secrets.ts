import type { Diagnostic } from "./build-result.ts";

/** Shapes of keys that services hand out; each is long and random enough not to be an ordinary setting. */
const SHAPES = [
  /^(sk|pk|rk)[-_][A-Za-z0-9_-]{16,}$/,
  /^(ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}$/,
  /^github_pat_\w{20,}$/,
  /^glpat-[\w-]{16,}$/,
  /^hf_[A-Za-z0-9]{16,}$/,
  /^xox[abprs]-[\w-]{10,}$/,
  /^(AKIA|ASIA)[A-Z0-9]{16}$/,
  /^AIza[\w-]{30,}$/,
  /^svcw?_[\w-]{20,}$/,
  /^eyJ[\w-]+\.[\w-]+\.[\w-]*$/,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
  /^[a-z][a-z0-9+.-]*:\/\/[^\s/:@]+:[^\s/@]+@/i,
];

const TELLING_NAME = /(^|_)(SECRET|PASSWORD|PASSWD|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?)(_|$)/i;
const PLACEHOLDER =
  /^(\s*|<.*>|\$\{?\w+\}?|x+|\*+|changeme|change-me|your[-_ ].*|todo|none|null|true|false|\d{1,4}|\/.*)$/i;

/** Whether the value of an environment variable looks like a key, a token or a password. */
export function looksLikeSecret(name: string, value: string): boolean {
  if (PLACEHOLDER.test(value)) return false;
  if (SHAPES.some((shape) => shape.test(value))) return true;
  if (TELLING_NAME.test(name) && value.length >= 8 && !value.includes(" ")) return true;
  return /^[A-Za-z0-9+/_=-]{32,}$/.test(value) && entropyBits(value) > 4;
}

/** Shannon entropy per character; random base64 has about 5 to 6, words and hex names below 4. */
function entropyBits(text: string): number {
  const counts = new Map<string, number>();
  for (const char of text) counts.set(char, (counts.get(char) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length);
  return bits;
}

/** The finding with secrets and credentials of addresses blotted out, at their length so that columns stay right. */
export function withoutSecrets(diagnostic: Diagnostic, secrets: Iterable<string>): Diagnostic {
  // The longest first: a piece of a secret must not break up the whole.
  const longestFirst = [...secrets].flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]);
  longestFirst.sort((a, b) => b.length - a.length);
  const mask = (text: string) => {
    let masked = text.replace(/(?<=\w:\/\/)[^/@\s"']+(?=@)/g, (found) => "*".repeat(found.length));
    for (const secret of longestFirst) masked = masked.replaceAll(secret, "*".repeat(secret.length));
    return masked;
  };
  const { message, source } = diagnostic;
  return { ...diagnostic, message: mask(message), ...(source === undefined ? {} : { source: mask(source) }) };
}

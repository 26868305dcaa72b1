/** What a machine's settings of pip say, as settings of uv: the uv that we bring there reaches the same indexes the same way. */

type Env = Readonly<Record<string, string | undefined>>;

/** Of `pip config list`, by uv's variables. */
const BY_VARIABLE = {
  UV_DEFAULT_INDEX: "index-url",
  UV_INDEX: "extra-index-url",
  UV_FIND_LINKS: "find-links",
  UV_NO_INDEX: "no-index",
  UV_CONSTRAINT: "constraint",
  UV_INSECURE_HOST: "trusted-host",
  SSL_CERT_FILE: "cert",
  SSL_CLIENT_CERT: "client-cert",
  ALL_PROXY: "proxy",
} as const;
/** uv takes a list with commas; pip takes white space. */
const COMMAS = ["UV_FIND_LINKS"];
/** Later ones win. */
const SECTIONS = ["global", "install", ":env:"];

/** `listed` is what `pip config list` printed. What `env` says to uv itself stays. */
export function uvSettings(listed: string, env: Env): Record<string, string> {
  const said = new Map<string, string>(listed.split(/\r?\n/).flatMap(settingOf));
  const found: Record<string, string> = {};
  for (const [variable, name] of Object.entries(BY_VARIABLE)) {
    const value = SECTIONS.flatMap((section) => said.get(`${section}.${name}`) ?? []).at(-1);
    if (value === undefined || env[variable] !== undefined) continue;
    found[variable] = value
      .trim()
      .split(/\s+/)
      .join(COMMAS.includes(variable) ? "," : " ");
  }
  // pip takes the best of all its indexes; uv would stop at the first that has the package.
  if (found.UV_INDEX !== undefined) found.UV_INDEX_STRATEGY = "unsafe-best-match";
  return found;
}

/** "global.find-links='\\n/srv/a\\n/srv/b'": the value is written as Python writes a text. */
function settingOf(line: string): [name: string, value: string][] {
  const found = /^([\w:.-]+)=(['"])(.*)\2$/.exec(line);
  if (found === null) return [];
  const value = found[3]!.replace(/\\(.)/g, (_, char: string) => (/[nrt]/.test(char) ? "\n" : char));
  return [[found[1]!, value]];
}

/**
 * A call that was made, as code that makes it again when pasted: curl in a POSIX shell, Python with its standard
 * library, TypeScript for Node, Deno and Bun. Files stand for themselves by their names.
 */

const PYTHON_WORDS = { true: "True", false: "False", null: "None" };

/**
 * @typedef {object} Sent
 * @property {string} url Absolute
 * @property {string} method
 * @property {Record<string, string>} headers
 * @property {string | Blob | FormData | undefined} body
 * @property {string} [saveAs] The answer is no text: the file it goes to
 * @property {boolean} [asksForToken] The server wants one, which a page does not see
 */

/** @param {Sent} sent */
export function codeExamples(sent) {
  const call = { ...sent, headers: headersOf(sent), parts: partsOf(sent.body), json: isJson(sent) };
  if (!sent.asksForToken) return { curl: curl(call), Python: python(call), TypeScript: typescript(call) };
  call.headers.push(["Authorization", "Bearer TOKEN"]);
  return {
    curl: `# ${WHERE}\n${curl(call)}`,
    Python: `# ${WHERE}\n${python(call)}`,
    TypeScript: `// ${WHERE}\n${typescript(call)}`,
  };
}
const WHERE = "TOKEN: what stands behind svc_token= in the address that svc run shows";

/** Those that say something: what a library sets by itself is left to it. */
function headersOf({ headers, body }) {
  const isForm = body instanceof FormData;
  return Object.entries(headers).filter(([name, value]) => {
    const key = name.toLowerCase();
    return !(key === "accept" && /^\*\/\*$|^application\/json$/.test(value)) && !(key === "content-type" && isForm);
  });
}

function partsOf(body) {
  if (!(body instanceof FormData)) return undefined;
  return [...body].map(([name, value]) =>
    typeof value === "string" ? { name, value } : { name, file: fileName(value) },
  );
}

function isJson({ headers, body }) {
  const type = Object.entries(headers).find(([name]) => name.toLowerCase() === "content-type")?.[1] ?? "";
  if (typeof body !== "string" || !/[/+]json\b/.test(type)) return false;
  try {
    JSON.parse(body);
    return true;
  } catch {
    return false;
  }
}

function fileName(file) {
  return file.name || "input.bin";
}

function curl({ url, method, headers, body, parts, saveAs }) {
  const words = ["curl", ...(/[[\]{}]/.test(url) ? ["--globoff"] : []), ...(saveAs ? ["--output", shell(saveAs)] : [])];
  const lines = [[...words, "--request", method, shell(url)].join(" ")];
  for (const [name, value] of headers) lines.push(`--header ${shell(`${name}: ${value}`)}`);
  for (const { name, value, file } of parts ?? []) {
    if (file === undefined) lines.push(`--form-string ${shell(`${name}=${value}`)}`);
    else lines.push(`--form ${shell(`${name}=@"${file.replace(/["\\]/g, "\\$&")}"`)}`);
  }
  if (typeof body === "string") lines.push(`--data-raw ${shell(body)}`);
  else if (body !== undefined && parts === undefined) lines.push(`--data-binary ${shell(`@${fileName(body)}`)}`);
  return lines.join(" \\\n  ");
}

function shell(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function python({ url, method, headers, body, parts, json, saveAs }) {
  const imports = [...(json ? ["json"] : []), ...(parts ? ["secrets"] : []), "urllib.request"];
  const before = parts === undefined ? [] : pythonForm(parts);
  const given = headers.map(([name, value]) => `${text(name)}: ${text(value)}`);
  if (parts !== undefined) given.push(`"Content-Type": f"multipart/form-data; boundary={boundary}"`);
  const data = pythonData({ body, parts, json });
  return [
    ...imports.map((name) => `import ${name}`),
    "",
    ...before,
    "request = urllib.request.Request(",
    `    ${text(url)},`,
    `    method=${text(method)},`,
    ...(given.length > 0 ? [`    headers={${given.join(", ")}},`] : []),
    ...(data === undefined ? [] : [`    data=${data},`]),
    ")",
    "with urllib.request.urlopen(request) as answer:",
    ...(saveAs
      ? [`    with open(${text(saveAs)}, "wb") as file:`, "        file.write(answer.read())"]
      : ["    for line in answer:", '        print(line.decode(), end="")']),
  ].join("\n");
}

function pythonData({ body, parts, json }) {
  if (parts !== undefined) return "body";
  if (json) return `json.dumps(${pythonValue(body).replaceAll("\n", "\n    ")}).encode()`;
  if (typeof body === "string") return `${text(body)}.encode()`;
  return body === undefined ? undefined : `open(${text(fileName(body))}, "rb").read()`;
}

/** JSON is Python but for three words; its texts are written as Python reads them, its numbers keep their digits. */
function pythonValue(source) {
  return source
    .trim()
    .replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (token) =>
      token.startsWith('"') ? text(JSON.parse(token)) : PYTHON_WORDS[token],
    );
}

function pythonForm(parts) {
  const lines = ["boundary = secrets.token_hex(16)", 'body = b""'];
  for (const { name, value, file } of parts) {
    const filename = file === undefined ? "" : `; filename="${formName(file)}"`;
    const head = text(`Content-Disposition: form-data; name="${formName(name)}"${filename}\r\n\r\n`);
    const content =
      file === undefined ? `${text(value.replace(/\r?\n/g, "\r\n"))}.encode()` : `open(${text(file)}, "rb").read()`;
    lines.push(`body += f"--{boundary}\\r\\n".encode() + ${head}.encode() + ${content} + b"\\r\\n"`);
  }
  return [...lines, 'body += f"--{boundary}--\\r\\n".encode()', ""];
}

/** As a browser writes a name in a form. */
function formName(name) {
  return name.replace(/\r/g, "%0D").replace(/\n/g, "%0A").replace(/"/g, "%22");
}

function typescript({ url, method, headers, body, parts, json, saveAs }) {
  const files = (parts ?? []).some(({ file }) => file !== undefined);
  const isFile = body !== undefined && typeof body !== "string" && parts === undefined;
  const used = [
    ...(files ? ["openAsBlob"] : []),
    ...(isFile ? ["readFileSync"] : []),
    ...(saveAs ? ["writeFileSync"] : []),
  ];
  const given = headers.map(([name, value]) => `${text(name)}: ${text(value)}`);
  const sent = parts
    ? "form"
    : json
      ? `JSON.stringify(${body.trim().replaceAll("\n", "\n  ")})`
      : isFile
        ? `readFileSync(${text(fileName(body))})`
        : undefined;
  const exact = typeof body === "string" && (!json || losesDigits(body));
  const content = exact ? text(body) : sent;
  return [
    ...(used.length > 0 ? [`import { ${used.join(", ")} } from "node:fs";`, ""] : []),
    ...(parts ? typescriptForm(parts) : []),
    `const answer = await fetch(${text(url)}, {`,
    `  method: ${text(method)},`,
    ...(given.length > 0 ? [`  headers: { ${given.join(", ")} },`] : []),
    ...(content === undefined ? [] : [`  body: ${content},`]),
    "});",
    saveAs
      ? `writeFileSync(${text(saveAs)}, Buffer.from(await answer.arrayBuffer()));`
      : "console.log(answer.status, await answer.text());",
  ].join("\n");
}

function typescriptForm(parts) {
  const lines = parts.map(({ name, value, file }) =>
    file === undefined
      ? `form.append(${text(name)}, ${text(value)});`
      : `form.append(${text(name)}, await openAsBlob(${text(file)}), ${text(file)});`,
  );
  return ["const form = new FormData();", ...lines, ""];
}

/** Numbers that JavaScript would write otherwise: 1.0, and what has more digits than it keeps. */
function losesDigits(source) {
  const numbers = source.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d[\d.eE+-]*/g) ?? [];
  return numbers.some((each) => String(Number(each)) !== each);
}

/** A text of JSON is one of Python and of TypeScript too. */
function text(value) {
  return JSON.stringify(value);
}

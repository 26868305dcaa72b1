const TAG = "$svc";

/** As people wrote it: what Python callers add for the other end (docs/reference/calling.md) says nothing to a reader. */
export function withoutTags(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutTags);
  if (typeof value !== "object" || value === null) return value;
  const { [TAG]: tag, ...rest } = value as Record<string, unknown>;
  const isValue = Array.isArray(tag) && Object.keys(rest).length === 0;
  if (!isValue) return Object.fromEntries(Object.entries(rest).map(([name, each]) => [name, withoutTags(each)]));
  const content = tag.slice(1).map(withoutTags);
  return content.length === 1 ? content[0] : content;
}

/** `record[key]` when the record itself has it: "constructor" is a valid endpoint name. */
export function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

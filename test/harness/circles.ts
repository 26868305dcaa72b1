/** Circles of imports, each as the way around it. Depth first; what is on the way already closes a circle. */
export function circlesOf(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const circles: string[] = [];
  const left = new Set<string>();

  const visit = (file: string, way: readonly string[]): void => {
    if (left.has(file)) return;
    if (way.includes(file)) {
      circles.push([...way.slice(way.indexOf(file)), file].join(" -> "));
      return;
    }
    for (const target of imports.get(file) ?? []) visit(target, [...way, file]);
    left.add(file);
  };

  for (const file of imports.keys()) visit(file, []);
  return circles;
}

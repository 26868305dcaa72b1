/** Circles of imports: groups of files of which each reaches every other one (Tarjan's strongly connected components). */
export function circlesOf(imports: ReadonlyMap<string, Iterable<string>>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const path: string[] = [];
  const circles: string[][] = [];

  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file)!);
    path.push(file);
    for (const target of imports.get(file) ?? []) {
      if (!order.has(target)) visit(target);
      else if (!path.includes(target)) continue;
      lowest.set(file, Math.min(lowest.get(file)!, lowest.get(target)!));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const circle = path.splice(path.indexOf(file));
    if (circle.length > 1) circles.push(circle.sort());
  };

  for (const file of imports.keys()) if (!order.has(file)) visit(file);
  return circles;
}

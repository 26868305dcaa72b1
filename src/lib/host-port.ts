/** An address as it is written where a port may follow: an IPv6 address in brackets. */
export function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

export function hostPort({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${bracketed(host)}:${port}`;
}

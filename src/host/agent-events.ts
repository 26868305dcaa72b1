/** What happens on a host, for those who watch its agent: a line each. */
export type AgentEvent =
  | { readonly kind: "joined"; readonly host: string; readonly platform: string; readonly workers: number }
  | { readonly kind: "away"; readonly reason: string }
  | { readonly kind: "preparing"; readonly endpoint: string }
  | { readonly kind: "prepared"; readonly endpoint: string; readonly ms: number }
  | { readonly kind: "unprepared"; readonly endpoint: string; readonly reason: string }
  | { readonly kind: "started"; readonly worker: string; readonly endpoint: string }
  | { readonly kind: "ended"; readonly worker: string; readonly endpoint: string; readonly reason: string }
  | { readonly kind: "leaving"; readonly workers: number; readonly graceMs: number }
  | { readonly kind: "warning"; readonly message: string; readonly help?: string | undefined };

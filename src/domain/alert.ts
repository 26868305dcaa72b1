/**
 * Alerts: something that should not stay so, told once when it begins and once when it is over.
 *
 *   quiet ──at or above the threshold, twice──▶ firing ──below what clears it, three times──▶ quiet
 *
 * What clears it lies below the threshold: a value that goes to and fro around it tells nobody anything twice.
 */
import { ALERT_CLEARS_AFTER_CHECKS, ALERT_FIRES_AFTER_CHECKS } from "./limits.ts";

/** threshold: of what is measured, when none is given; clearsAt: the part of it below which the alert clears. */
export const ALERT_KINDS = {
  "endpoint.blocked": { threshold: 1, clearsAt: 1, unit: "endpoints", takesThreshold: false },
  "errors.rate": { threshold: 5, clearsAt: 0.8, unit: "%", takesThreshold: true },
  "wait.oldest": { threshold: 60, clearsAt: 0.8, unit: "s", takesThreshold: true },
  "disk.full": { threshold: 90, clearsAt: 0.97, unit: "%", takesThreshold: true },
} as const;
export type AlertKind = keyof typeof ALERT_KINDS;

export function isAlertKind(text: string): text is AlertKind {
  return Object.hasOwn(ALERT_KINDS, text);
}

/** Checks in a row that said the contrary of what is. */
export interface AlertState {
  readonly firing: boolean;
  readonly checks: number;
}

/** The state after a check that measured `value`. */
export function checked(kind: AlertKind, threshold: number, { firing, checks }: AlertState, value: number): AlertState {
  const isContrary = firing ? value < threshold * ALERT_KINDS[kind].clearsAt : value >= threshold;
  if (!isContrary) return { firing, checks: 0 };
  const needed = firing ? ALERT_CLEARS_AFTER_CHECKS : ALERT_FIRES_AFTER_CHECKS;
  return checks + 1 >= needed ? { firing: !firing, checks: 0 } : { firing, checks: checks + 1 };
}

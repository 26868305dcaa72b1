/** Alerts with what they still have to say. Fired and written is one: after a kill nothing is said twice or left unsaid. */
import type { AlertKind } from "../domain/alert.ts";

export interface AlertRecord {
  readonly id: string;
  readonly kind: AlertKind;
  readonly url: string;
  /** What it looks at; null: all. */
  readonly environmentId: string | null;
  readonly endpointId: string | null;
  readonly threshold: number;
  readonly createdAt: number;
  readonly firing: boolean;
  /** When it last began or ended to fire; null when it never did. */
  readonly lastAt: number | null;
  /** Of the last message: "delivered", "due", or why not; "" for none. */
  readonly lastDelivery: string;
  /** Bodies that are still to be delivered, oldest first. */
  readonly messages: readonly string[];
  /** Attempts of the first of them that failed, and when the next is due. */
  readonly failures: number;
  readonly dueAt: number;
}

export interface AlertRepository {
  find(id: string): Promise<AlertRecord | undefined>;
  list(): Promise<AlertRecord[]>;
  insert(alert: AlertRecord): Promise<void>;
  /** False when it is not any more as it was `seen`: another platform was first. */
  update(id: string, changes: Partial<Omit<AlertRecord, "id">>, seen: AlertRecord): Promise<boolean>;
  /** False when there is none. */
  delete(id: string): Promise<boolean>;
}

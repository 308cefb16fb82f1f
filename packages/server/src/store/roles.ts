/** Roles of the database. They belong to the whole cluster, so several databases of one server share them. */
export const OWNER_ROLE = "signalbox_owner";
export const APP_ROLE = "signalbox_app";
export const RUN_ROLE = "signalbox_run";

export const ROLES = [OWNER_ROLE, APP_ROLE, RUN_ROLE] as const;
export type Role = (typeof ROLES)[number];

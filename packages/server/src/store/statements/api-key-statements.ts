export const FIND_API_KEY = {
  name: "find_api_key",
  text: `select id, tenant_id, name, prefix, rights, created_at, revoked_at
    from signalbox.api_key where hash = $1 and revoked_at is null`,
} as const;

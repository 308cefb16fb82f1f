/** Who looks: what a viewer may not see does not exist for them. */
export interface Viewer {
  readonly tenantId: string;
  /** End user asserted by the product. Such a viewer sees only conversations of that user; `null` sees the tenant. */
  readonly user: string | null;
}

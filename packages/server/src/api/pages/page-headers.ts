/**
 * What a browser is told about every page: nothing from elsewhere, nothing written into the page, no frame around it,
 * and no text that becomes markup or script.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** Headers of everything that a browser loads for a page. */
export const FILE_HEADERS = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-cache",
} as const;

export const PAGE_HEADERS = { ...FILE_HEADERS, "content-type": "text/html; charset=utf-8" } as const;

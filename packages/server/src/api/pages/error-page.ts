/** What a code of the error table means, for people: the address that every problem document names as its type. */
import { ERROR_CODES, type ErrorCode, type Fault } from "@signalbox/contract";
import { html, readingPage, type Html } from "./html.ts";

const FAULTS: Readonly<Record<Fault, string>> = {
  caller: "the caller's: the request has to be changed",
  policy: "a rule's: it forbids this",
  provider: "a provider's",
  platform: "the platform's",
};

export function errorPage(code: ErrorCode): string {
  const { title, status, fault, retryable } = ERROR_CODES[code];
  const again = retryable
    ? "Yes: the same request can succeed later."
    : "No: the same request will be answered the same way.";
  return readingPage(
    code,
    html`<section>
      <h2><code>${code}</code></h2>
      <p>${title}</p>
      <table>
        <tr>
          <th>HTTP status</th>
          <td>${status}</td>
        </tr>
        <tr>
          <th>Whose doing</th>
          <td>${FAULTS[fault]}</td>
        </tr>
        <tr>
          <th>Try again</th>
          <td>${again}</td>
        </tr>
      </table>
      <p>The <code>detail</code> and <code>errors</code> of the answer say what was wrong in this request.</p>
      <p><a href="/docs#errors">All error codes</a></p>
    </section>`,
  );
}

export function errorTable(): Html {
  const rows = Object.entries(ERROR_CODES).map(
    ([code, { status, fault, retryable, title }]) =>
      html`<tr>
        <td>
          <a href="/errors/${code}"><code>${code}</code></a>
        </td>
        <td>${status}</td>
        <td>${fault}</td>
        <td>${retryable ? "yes" : "no"}</td>
        <td>${title}</td>
      </tr>`,
  );
  return html`<div class="scroll">
    <table>
      <thead>
        <tr>
          <th>Code</th>
          <th>Status</th>
          <th>Fault</th>
          <th>Retryable</th>
          <th>Meaning</th>
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </div>`;
}

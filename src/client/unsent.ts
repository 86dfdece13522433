/** The maximum number of causes that are read: an error can be its own cause. */
export const MAX_CAUSES = 8;

/**
 * The errors of `fetch` when the request certainly did not reach the service, as code and message: codes of Node, undici
 * and Bun, and messages of Deno, which has no codes.
 *
 * Only failures before a connection's first request. A TLS error such as a bad record can also end a connection that has
 * carried a request, which the service may have carried out.
 */
const UNSENT: readonly { readonly error: RegExp; readonly fix: string }[] = [
  {
    error:
      /^(?:CERT_|CRL_|UNABLE_TO_|ERROR_IN_C|(?:DEPTH_ZERO_)?SELF_SIGNED_CERT|INVALID_(?:CA|PURPOSE) |PATH_LENGTH_EXCEEDED |HOSTNAME_MISMATCH |ERR_TLS_CERT_ALTNAME_)|invalid peer certificate/,
    fix: 'The certificate is not trusted, has expired or names another host. If its CA is your own, set NODE_EXTRA_CA_CERTS to its file before the process starts; otherwise renew the certificate or check the base URL.',
  },
  {
    error:
      /^ERR_SSL_\w*(?:WRONG_VERSION_NUMBER|UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION|NO_PROTOCOLS_AVAILABLE|HANDSHAKE_FAILURE|UNRECOGNIZED_NAME|INSUFFICIENT_SECURITY|KEY_TOO_SMALL) |before secure TLS connection|TLS handshake failed|EPROTO.*(?:wrong version number|handshake failure)|\(Connect\): (?:tls handshake|received (?:fatal alert|corrupt message))/s,
    fix: 'The TLS handshake failed. Check the scheme and the port of the base URL, and which TLS versions the service accepts.',
  },
  {
    error: / bad port$|Requests to port \d+ are blocked/,
    fix: 'fetch refuses this port. Set another port in the base URL.',
  },
  {
    error:
      /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused) |client error \(Connect\)/,
    fix: 'Check the base URL and the network.',
  },
];

/** The fix for a failure before anything was sent; `undefined` when the request may have arrived. */
export function fixOfUnsent(thrown: unknown, depth = MAX_CAUSES): string | undefined {
  if (!(thrown instanceof Error)) return undefined;
  const text = `${'code' in thrown ? thrown.code : ''} ${thrown.message}`;
  const reason = UNSENT.find(({ error }) => error.test(text));
  return reason?.fix ?? (depth > 0 ? fixOfUnsent(thrown.cause, depth - 1) : undefined);
}

export interface ConnectionFailure {
  /** This text is part of a row, so it begins in lower case and has no full stop. */
  readonly what: string;
  readonly fix: string;
}

const CUT: ConnectionFailure = {
  what: 'the connection was cut',
  fix: "See the other side's log. If that port expects TLS, use an https: URL.",
};
const LATE: ConnectionFailure = { what: 'the host did not respond in time', fix: 'Check the network.' };
const UNTRUSTED: ConnectionFailure = {
  what: 'its certificate is not trusted',
  fix: 'Set NODE_EXTRA_CA_CERTS to the PEM file of the authority that signed the certificate, or to the certificate itself if it is self-signed.',
};
const NO_TLS: ConnectionFailure = {
  what: 'it does not speak TLS',
  fix: 'Check the port. If the port does not use TLS, use an http: URL.',
};
const NO_HTTP: ConnectionFailure = {
  what: 'it does not speak HTTP',
  fix: 'Check the port. If the port uses TLS, use an https: URL.',
};

const FAILURES: Readonly<Record<string, ConnectionFailure>> = {
  ECONNREFUSED: {
    what: 'nothing is listening there',
    fix: 'Check that the server is running and that the port is correct.',
  },
  ECONNRESET: CUT,
  EPIPE: CUT,
  UND_ERR_SOCKET: CUT,
  ENOTFOUND: { what: 'the host name does not exist', fix: 'Check the URL and the network.' },
  EAI_AGAIN: { what: 'host names cannot be resolved', fix: 'Check the network.' },
  EHOSTUNREACH: { what: 'the host cannot be reached', fix: 'Check the network.' },
  ENETUNREACH: { what: 'the network cannot be reached', fix: 'Check the connection.' },
  ETIMEDOUT: LATE,
  UND_ERR_CONNECT_TIMEOUT: LATE,
  UND_ERR_HEADERS_TIMEOUT: LATE,
  UND_ERR_BODY_TIMEOUT: LATE,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  CERT_HAS_EXPIRED: { what: 'its certificate has expired', fix: 'Renew the certificate.' },
  CERT_NOT_YET_VALID: { what: 'its certificate is not valid yet', fix: 'Check the clocks of both sides.' },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    what: 'its certificate is for another host',
    fix: 'Use a host name that the certificate covers.',
  },
  EPROTO: NO_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
};

export function connectionFailure(code: string): ConnectionFailure | undefined {
  // Every code of Node's HTTP parser means that the response is not HTTP.
  if (code.startsWith('HPE_')) return NO_HTTP;
  return Object.hasOwn(FAILURES, code) ? FAILURES[code] : undefined;
}

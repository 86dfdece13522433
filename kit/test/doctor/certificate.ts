import { generateKeyPairSync, sign } from 'node:crypto';

const DAY_MS = 86_400_000;

/** A certificate and its key, as PEM. */
export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
}

/** Which host the certificate is for, and until when it is valid. */
export interface CertificateOptions {
  /** @default '127.0.0.1' */
  readonly host?: string;
  /** In ms from now. @default one day */
  readonly validForMs?: number;
}

/**
 * Makes a self-signed certificate with a new key. Node can sign, but has no function for certificates, so the DER is
 * written here (RFC 5280).
 */
export function makeCertificate(options: CertificateOptions = {}): TestCertificate {
  const { host = '127.0.0.1', validForMs = DAY_MS } = options;
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const now = Date.now();
  const name = sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from('stablehooks test')))));
  const isAddress = /^[\d.]+$/.test(host);
  const altName = isAddress
    ? der(0x87, Buffer.from(host.split('.').map(Number)))
    : der(0x82, Buffer.from(host));
  const content = sequence(
    der(0xa0, integer(2)),
    integer(now),
    ECDSA_SHA256,
    name,
    sequence(time(now - 2 * DAY_MS), time(now + validForMs)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(SUBJECT_ALT_NAME, der(0x04, sequence(altName))))),
  );
  const signature = der(0x03, Buffer.of(0), sign('sha256', content, privateKey));
  return {
    cert: toPem(sequence(content, ECDSA_SHA256, signature)),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

const ECDSA_SHA256 = sequence(Buffer.from('06082a8648ce3d040302', 'hex'));
const COMMON_NAME = Buffer.from('0603550403', 'hex');
const SUBJECT_ALT_NAME = Buffer.from('0603551d11', 'hex');

/** One element: its tag, its length and its parts. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 0x80 ? [tag, length] : [tag, 0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), content]);
}

function sequence(...parts: readonly Uint8Array[]): Buffer {
  return der(0x30, ...parts);
}

/** A number that is not negative. */
function integer(value: number): Buffer {
  const hex = value.toString(16);
  const bytes = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex');
  return der(0x02, (bytes[0] ?? 0) > 0x7f ? Buffer.concat([Buffer.of(0), bytes]) : bytes);
}

function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/\D/g, '').slice(2, 14);
  return der(0x17, Buffer.from(`${digits}Z`));
}

function toPem(bytes: Buffer): string {
  const lines = bytes.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n');
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

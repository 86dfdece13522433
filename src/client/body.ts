/** Reading the body of an answer, and never more of it than was agreed. */
import { joinBytes } from '../core/bytes.js';

/** The bytes that were read, and whether they are all. */
export interface LimitedBody {
  readonly bytes: Uint8Array;
  readonly whole: boolean;
}

/** Reads up to `maxBodyBytes` and lets go of the rest. */
export async function readLimited(
  response: Response,
  { maxBodyBytes }: { readonly maxBodyBytes: number },
): Promise<LimitedBody> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let read = await reader?.read(); read !== undefined && !read.done; read = await reader?.read()) {
    chunks.push(read.value);
    size += read.value.length;
    if (size > maxBodyBytes) {
      // Not awaited: a source that never settles its cancellation must not hold the caller up.
      reader?.cancel().catch(() => undefined);
      return { bytes: joinBytes(chunks, size).subarray(0, maxBodyBytes), whole: false };
    }
  }
  return { bytes: joinBytes(chunks, size), whole: true };
}
